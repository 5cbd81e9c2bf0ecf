import type { Deps } from '../../../deps.ts'
import { allChannels } from '../channels/all-channels.ts'
import { type Lane, lanes } from '../outbox/alert.ts'
import { type ChannelProgress, type ReceiverState, readProgress } from '../routing/queries.ts'
import type { KnownChannel, RoutingTable } from '../routing/routing-table.ts'
import { Attempts, leaseMs } from './attempts.ts'
import { type ClaimedMessage, claimMessages, hasDueMessage, releaseAllMessages, releaseMessages } from './queries.ts'
import { downAfter } from './retry-schedule.ts'
import type { Send } from './sender.ts'
import { Turns } from './turns.ts'

/** Attempts at once in each lane, and messages taken at once: the last of these is attempted well within the lease. */
const machineAttempts: Record<Lane, number> = { own: 4, reported: 8 }
const machineClaim: Record<Lane, number> = { own: 8, reported: 16 }
/** Chats want their messages one after the other; but one that hangs with a report must not delay the service's own. */
const peopleAttempts = 1

/** Writes messages; the dispatcher only needs to know that there may be new ones afterwards. */
export interface Planner {
  /** Plans the alerts after this place of a channel in a lane. Resolves with whether there may be more. */
  plan(lane: Lane, channel: KnownChannel, from: number): Promise<boolean>
  /** Writes the messages of groups of a lane that are due. */
  flushDue(lane: Lane, channels: readonly KnownChannel[]): Promise<void>
}

interface DispatcherParts {
  table: Pick<RoutingTable, 'current'>
  planner: Planner
  send: Send
  closeEgresses: () => Promise<void>
  /** Called for a receiver that will never take anything again. */
  onGone: (channelId: string) => Promise<void>
}

/** What this process sends to one channel in one lane. */
interface Sending {
  /** Taken, not begun. */
  queue: ClaimedMessage[]
  /** Ids of messages whose attempts are under way. */
  busy: Set<string>
  isClaiming: boolean
}

/**
 * Plans and sends. Any number of processes do it at once: a message is claimed by a guarded update with a lease, and
 * who dies loses it to the others. A receiver may get a message twice, when its answer was lost, always with the same id.
 */
export class Dispatcher {
  readonly #deps: Pick<Deps, 'database' | 'clock' | 'log'>
  readonly #table: DispatcherParts['table']
  readonly #planner: Planner
  readonly #attempts: Attempts
  /** Enabled channels as of the last reading and of the attempts since; entries are replaced, never changed. */
  #progress: ReadonlyMap<string, ChannelProgress> = new Map()
  /** For each reading under way: channels that it may show as they were before an attempt. */
  readonly #outdated = new Set<Set<string>>()
  readonly #closeEgresses: DispatcherParts['closeEgresses']
  readonly #onGone: DispatcherParts['onGone']
  readonly #sendings = new Map<string, Record<Lane, Sending>>()
  /** Attempts, each with what it begins when it ends. */
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
    // Separately: however long a turn through a flood of reports takes, the service's own alerts do not wait for it.
    this.#turns = { own: turnsOf('own'), reported: turnsOf('reported') }
  }

  /** Messages claimed by an earlier process are free at once, where that process cannot be running any more. */
  async open(): Promise<void> {
    if (!this.#deps.database.isShared) await releaseAllMessages(this.#deps.database.db)
  }

  /** Takes a turn in a moment, however many ask for it. */
  wake(): void {
    for (const lane of lanes) this.#turns[lane].wake()
  }

  /** One turn of each lane: plans what is new, flushes groups that are due, begins to send what is due. */
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
      // One channel that cannot be planned just now delays no other.
      const hasMore = await this.#planner.plan(lane, channel, from).catch(this.#logFault)
      if (hasMore) this.#turns[lane].wake()
      // A receiver need not wait until all others are planned.
      if (hasMore) await this.#sendDue(lane, channel)
    }
    await this.#planner.flushDue(
      lane,
      channels.filter(({ type }) => allChannels[type].audience === 'people'),
    )
    for (const channel of channels) await this.#sendDue(lane, channel)
  }

  /** Reads all channels. What attempts said about a receiver meanwhile stays: the reading may have begun before. */
  async #readProgress(): Promise<ReadonlyMap<string, ChannelProgress>> {
    const outdated = new Set<string>()
    this.#outdated.add(outdated)
    try {
      const read = await readProgress(this.#deps.database.db)
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

  /** For what is sent before the next reading. A channel that no reading has shown yet has planned nothing. */
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
    // A receiver that is paused costs no query.
    if (lane === 'reported' && this.#isPaused(channel.id)) return
    const now = this.#deps.clock.now()
    if (await hasDueMessage(this.#deps.database.db, channel.id, lane, now)) await this.#send(lane, channel)
  }

  #isPaused(channelId: string): boolean {
    const { resumeAt = null } = this.#progress.get(channelId) ?? {}
    return resumeAt !== null && resumeAt > this.#deps.clock.now()
  }

  /**
   * Attempts that may begin now. A receiver that is down is probed with one message. The service's own messages are
   * attempted once in any case: a receiver may refuse only what callers reported.
   */
  #freeAttempts(lane: Lane, { id, type }: KnownChannel): number {
    const sending = this.#sendingOf(id)
    const { failures = 0 } = this.#progress.get(id) ?? {}
    if (this.#isClosing) return 0
    if (this.#isPaused(id)) return lane === 'own' && sending.own.busy.size === 0 ? 1 : 0
    if (failures >= downAfter) return lanes.every((one) => sending[one].busy.size === 0) ? 1 : 0
    const maximum = allChannels[type].audience === 'machines' ? machineAttempts[lane] : peopleAttempts
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
    if (sending.queue.length > 0 && sending.busy.size === 0) await this.#giveBack(sending)
  }

  #claim(lane: Lane, { id, type }: KnownChannel): Promise<ClaimedMessage[]> {
    const { database, clock } = this.#deps
    const unattemptedOnly = this.#isPaused(id)
    const isDown = unattemptedOnly || (this.#progress.get(id)?.failures ?? 0) >= downAfter
    const limit = isDown || allChannels[type].audience === 'people' ? 1 : machineClaim[lane]
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

  /** Nothing is under way that would come back to what was taken: others, or a later turn, may have it. */
  async #giveBack(sending: Sending): Promise<void> {
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
        // As it is by now: it may have moved, or been switched off.
        const current = this.#table.current.channels.find(({ id }) => id === channel.id)
        return current?.enabled ? this.#send(lane, current) : this.#giveBack(sending)
      })
      .catch(this.#logFault)
      .then(() => void this.#underWay.delete(work))
    this.#underWay.add(work)
  }

  readonly #logFault = (fault: unknown): void => {
    this.#deps.log.error({ err: fault }, 'alerts are delayed; they are sent as soon as the fault is over')
  }

  /** Sends a message that this process holds already, and resolves with what the receiver said. */
  sendNow(channel: KnownChannel, message: ClaimedMessage) {
    return this.#attempts.make(channel, message, this.#cut.signal)
  }

  /** Names this process in what it takes. */
  get owner(): string {
    return this.#attempts.owner
  }

  /** Resolves when nothing is being planned or sent. */
  async whenIdle(): Promise<void> {
    await Promise.all(lanes.map((lane) => this.#turns[lane].whenIdle()))
    while (this.#underWay.size > 0) await Promise.all(this.#underWay)
    await this.#attempts.whenIdle()
  }

  /** Begins nothing more, gives attempts under way a moment, cuts the others, and leaves the rest to the next process. */
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
