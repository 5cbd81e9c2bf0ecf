import { channelKinds } from '@wardline/contract'
import type { Deps } from '../../../deps.ts'
import { type Lane, lanes } from '../outbox/alert.ts'
import { type ChannelProgress, type ReceiverState, readChannelProgress } from '../routing/queries.ts'
import type { KnownChannel, RoutingTable } from '../routing/routing-table.ts'
import { Attempts, leaseMs } from './attempts.ts'
import { type ClaimedMessage, claimMessages, hasDueMessage, releaseAllMessages, releaseMessages } from './queries.ts'
import { downAfter } from './retry-schedule.ts'
import type { Send } from './sender.ts'
import { Turns } from './turns.ts'

/** Concurrent attempts per lane, and messages claimed at once: the last one is attempted well within its lease. */
const machineAttempts: Record<Lane, number> = { own: 4, reported: 8 }
const machineClaim: Record<Lane, number> = { own: 8, reported: 16 }
/** Chats get messages in sequence, but a hanging report must not delay the service's own alerts: one attempt per lane. */
const peopleAttempts = 1

/** Plans alerts and writes messages, which the dispatcher then sends. */
export interface Planner {
  /** Plans the next alerts of a channel in a lane, after a position. Resolves with whether there may be more. */
  plan(lane: Lane, channel: KnownChannel, from: number): Promise<boolean>
  /** Writes the messages of due groups of a lane. */
  flushDue(lane: Lane, channels: readonly KnownChannel[]): Promise<void>
}

interface DispatcherParts {
  table: Pick<RoutingTable, 'current'>
  planner: Planner
  send: Send
  closeEgresses: () => Promise<void>
  /** Called if a receiver answered that it is gone for good (410). */
  onGone: (channelId: string) => Promise<void>
}

/** State of sending to one channel in one lane. */
interface Sending {
  /** Claimed messages whose attempt has not started. */
  queue: ClaimedMessage[]
  /** Ids of messages with a running attempt. */
  busy: Set<string>
  isClaiming: boolean
}

/**
 * Plans and sends, in any number of processes. A message is claimed by a guarded update with a lease; if its process
 * crashes, another one takes over. If a response is lost, a receiver may get a message twice, with the same id.
 */
export class Dispatcher {
  readonly #deps: Pick<Deps, 'database' | 'clock' | 'log'>
  readonly #table: DispatcherParts['table']
  readonly #planner: Planner
  readonly #attempts: Attempts
  /** Enabled channels as of the last read, updated by attempts since. Entries are replaced, never changed. */
  #progress: ReadonlyMap<string, ChannelProgress> = new Map()
  /** For each pending read: channels that it may return in their state before an attempt. */
  readonly #outdated = new Set<Set<string>>()
  readonly #closeEgresses: DispatcherParts['closeEgresses']
  readonly #onGone: DispatcherParts['onGone']
  readonly #sendings = new Map<string, Record<Lane, Sending>>()
  /** Running attempts, each including the start of its successor. */
  readonly #underWay = new Set<Promise<void>>()
  readonly #cut = new AbortController()
  readonly #turns: Record<Lane, Turns>
  #isClosing = false

  constructor(deps: Pick<Deps, 'database' | 'clock' | 'log' | 'metrics'>, parts: DispatcherParts) {
    this.#deps = deps
    this.#table = parts.table
    this.#planner = parts.planner
    this.#attempts = new Attempts(deps, parts.send, {
      failuresOf: (channelId) => this.#progress.get(channelId)?.failures ?? 0,
      learn: (states) => this.#learn(states),
    })
    this.#closeEgresses = parts.closeEgresses
    this.#onGone = parts.onGone
    const turnsOf = (lane: Lane) => new Turns(() => this.#takeTurn(lane), this.#logFault)
    // One loop per lane, so that the service's own alerts do not wait for a flood of reports.
    this.#turns = { own: turnsOf('own'), reported: turnsOf('reported') }
  }

  /** Releases messages claimed by an earlier process, where that process cannot be running any more. */
  async open(): Promise<void> {
    if (!this.#deps.database.isShared) await releaseAllMessages(this.#deps.database.db)
  }

  /** Schedules a turn; several calls share one. */
  wake(): void {
    for (const lane of lanes) this.#turns[lane].wake()
  }

  /** Runs one turn of each lane: plans new alerts, flushes due groups, starts to send due messages. */
  async run(): Promise<void> {
    await Promise.all(lanes.map((lane) => this.#turns[lane].run()))
  }

  async #takeTurn(lane: Lane): Promise<void> {
    const known = this.#table.current.channels
    if (known.length === 0 || this.#isClosing) return
    const progress = await this.#readProgress()
    const channels = known.filter(({ id }) => progress.has(id))
    for (const channel of channels) {
      const from = progress.get(channel.id)!.planned[lane]
      // A channel whose planning fails must not delay the others.
      const hasMore = await this.#planner.plan(lane, channel, from).catch(this.#logFault)
      if (hasMore) this.#turns[lane].wake()
      // Start sending before the other channels are planned.
      if (hasMore) await this.#sendDue(lane, channel)
    }
    await this.#planner.flushDue(
      lane,
      channels.filter(({ type }) => channelKinds[type].audience === 'people'),
    )
    for (const channel of channels) await this.#sendDue(lane, channel)
  }

  /** Reads all channels. Keeps results of attempts that ended during the read, which may be older. */
  async #readProgress(): Promise<ReadonlyMap<string, ChannelProgress>> {
    const outdated = new Set<string>()
    this.#outdated.add(outdated)
    try {
      const read = await readChannelProgress(this.#deps.database.db)
      const before = this.#progress
      this.#progress = new Map(
        read.map((row) => {
          const known = outdated.has(row.id) && before.get(row.id)
          return [row.id, known ? { ...row, failures: known.failures, resumeAt: known.resumeAt } : row]
        }),
      )
      return this.#progress
    } finally {
      this.#outdated.delete(outdated)
    }
  }

  /** Updates a channel until the next read. A channel that was never read has no messages yet. */
  #learn(states: readonly ReceiverState[]): void {
    const next = new Map(this.#progress)
    for (const { channelId, failures, resumeAt } of states) {
      const known = next.get(channelId) ?? { id: channelId, planned: { own: 0, reported: 0 }, failures: 0 }
      next.set(channelId, { ...known, failures: failures === null ? 0 : known.failures + failures, resumeAt })
      for (const outdated of this.#outdated) outdated.add(channelId)
    }
    this.#progress = next
  }

  async #sendDue(lane: Lane, channel: KnownChannel): Promise<void> {
    // Skip paused receivers without a query.
    if (lane === 'reported' && this.#isPaused(channel.id)) return
    const now = this.#deps.clock.now()
    if (await hasDueMessage(this.#deps.database.db, channel.id, lane, now)) await this.#send(lane, channel)
  }

  #isPaused(channelId: string): boolean {
    const { resumeAt = null } = this.#progress.get(channelId) ?? {}
    return resumeAt !== null && resumeAt > this.#deps.clock.now()
  }

  /**
   * Returns the attempts that may start now. A receiver that is down is probed with one message. The service's own
   * messages are attempted once in any case, because a receiver may only refuse those reported by callers.
   */
  #freeAttempts(lane: Lane, { id, type }: KnownChannel): number {
    const sending = this.#sendingOf(id)
    const { failures = 0 } = this.#progress.get(id) ?? {}
    if (this.#isClosing) return 0
    if (this.#isPaused(id)) return lane === 'own' && sending.own.busy.size === 0 ? 1 : 0
    if (failures >= downAfter) return lanes.every((one) => sending[one].busy.size === 0) ? 1 : 0
    const maximum = channelKinds[type].audience === 'machines' ? machineAttempts[lane] : peopleAttempts
    return maximum - sending[lane].busy.size
  }

  #sendingOf(channelId: string): Record<Lane, Sending> {
    const known = this.#sendings.get(channelId)
    if (known) return known
    const none = (): Sending => ({ queue: [], busy: new Set(), isClaiming: false })
    const sending = { own: none(), reported: none() }
    this.#sendings.set(channelId, sending)
    return sending
  }

  async #send(lane: Lane, channel: KnownChannel): Promise<void> {
    const sending = this.#sendingOf(channel.id)[lane]
    if (sending.isClaiming) return
    if (sending.queue.length === 0 && this.#freeAttempts(lane, channel) > 0) {
      sending.isClaiming = true
      try {
        sending.queue = await this.#claim(lane, channel)
      } finally {
        sending.isClaiming = false
      }
    }
    while (sending.queue.length > 0 && this.#freeAttempts(lane, channel) > 0) {
      this.#begin(lane, channel, sending.queue.shift()!)
    }
    if (sending.queue.length > 0 && sending.busy.size === 0) await this.#release(sending)
  }

  #claim(lane: Lane, { id, type }: KnownChannel): Promise<ClaimedMessage[]> {
    const { database, clock } = this.#deps
    const unattemptedOnly = this.#isPaused(id)
    const isDown = unattemptedOnly || (this.#progress.get(id)?.failures ?? 0) >= downAfter
    const limit = isDown || channelKinds[type].audience === 'people' ? 1 : machineClaim[lane]
    return claimMessages(database.db, {
      channelId: id,
      lane,
      owner: this.#attempts.owner,
      now: clock.now(),
      leaseMs,
      limit,
      unattemptedOnly,
    })
  }

  /** Releases claimed messages that no running attempt would continue with, for other processes or a later turn. */
  async #release(sending: Sending): Promise<void> {
    const ids = sending.queue.splice(0).map(({ id }) => id)
    if (ids.length === 0) return
    await releaseMessages(this.#deps.database.db, this.#attempts.owner, ids)
  }

  #begin(lane: Lane, channel: KnownChannel, message: ClaimedMessage): void {
    const sending = this.#sendingOf(channel.id)[lane]
    sending.busy.add(message.id)
    const work = this.#attempts
      .make(channel, message, this.#cut.signal)
      .then((verdict) => (verdict.gone ? this.#onGone(channel.id) : undefined))
      .catch(this.#logFault)
      .then(() => {
        sending.busy.delete(message.id)
        // Look the channel up again: it may have been changed or disabled.
        const current = this.#table.current.channels.find(({ id }) => id === channel.id)
        return current?.enabled ? this.#send(lane, current) : this.#release(sending)
      })
      .catch(this.#logFault)
      .then(() => void this.#underWay.delete(work))
    this.#underWay.add(work)
  }

  readonly #logFault = (fault: unknown): void => {
    this.#deps.log.error({ err: fault }, 'alerts are delayed; they are sent as soon as the fault is over')
  }

  /** Sends a message that this process holds already; resolves with the receiver's response. */
  sendNow(channel: KnownChannel, message: ClaimedMessage) {
    return this.#attempts.make(channel, message, this.#cut.signal)
  }

  /** Id of this process in the leases that it takes. */
  get owner(): string {
    return this.#attempts.owner
  }

  /** Resolves when nothing is planned or sent. */
  async whenIdle(): Promise<void> {
    await Promise.all(lanes.map((lane) => this.#turns[lane].whenIdle()))
    while (this.#underWay.size > 0) await Promise.all(this.#underWay)
    await this.#attempts.whenIdle()
  }

  /** Starts nothing new, gives running attempts a moment to end, aborts the others, and leaves the rest to the next process. */
  async close(graceMs: number): Promise<void> {
    this.#isClosing = true
    for (const lane of lanes) this.#turns[lane].close()
    const cut = setTimeout(() => this.#cut.abort(), graceMs)
    await this.whenIdle().catch(this.#logFault)
    clearTimeout(cut)
    this.#cut.abort()
    await this.#closeEgresses()
    await releaseMessages(this.#deps.database.db, this.#attempts.owner).catch(this.#logFault)
  }
}
