import type { Deps } from '../../deps.ts'
import { allChannels } from './channels/all-channels.ts'
import type { Directory, KnownChannel } from './directory.ts'
import {
  type ClaimedMessage,
  claimMessages,
  hasDueMessage,
  releaseAllMessages,
  releaseMessages,
} from './message-queries.ts'
import { readAlertHead, readProgress } from './plan-queries.ts'
import type { Planner } from './planner.ts'
import { downAfter } from './retry-schedule.ts'
import { leaseMs, type Tries } from './tries.ts'

/** Tries at once, and messages taken at once: the last of these begins its try well within the lease. */
const machineTries = 8
const machineClaim = 16
/** Chats want their messages one after the other. */
const peopleTries = 1
/** Alerts that arrive within this time are planned together: each turn writes, and what agents send must not wait for it. */
const betweenTurnsMs = 50

export interface DispatcherParts {
  directory: { readonly current: Directory }
  planner: Planner
  tries: Tries
  closeEgresses: () => Promise<void>
  /** Hears of a receiver that will take nothing ever again. */
  onGone: (channelId: string) => Promise<void>
}

/** What this process sends to one channel. */
interface Lane {
  /** Taken, not begun. */
  queue: ClaimedMessage[]
  /** Ids of messages whose tries are under way. */
  busy: Set<string>
  isClaiming: boolean
}

/**
 * Plans and sends. Any number of processes do it at once: a message is claimed by a guarded update with a lease, and
 * who dies loses it to the others. A receiver may get a message twice, when its answer was lost, always with the same id.
 */
export class Dispatcher {
  readonly #deps: Pick<Deps, 'database' | 'clock' | 'log'>
  readonly #directory: { readonly current: Directory }
  readonly #planner: Planner
  readonly #tries: Tries
  readonly #closeEgresses: DispatcherParts['closeEgresses']
  readonly #onGone: DispatcherParts['onGone']
  readonly #lanes = new Map<string, Lane>()
  /** Tries, each with what it begins when it ends. */
  readonly #underWay = new Set<Promise<void>>()
  readonly #cut = new AbortController()
  #isClosing = false
  #turn: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(deps: Pick<Deps, 'database' | 'clock' | 'log'>, parts: DispatcherParts) {
    this.#deps = deps
    this.#directory = parts.directory
    this.#planner = parts.planner
    this.#tries = parts.tries
    this.#closeEgresses = parts.closeEgresses
    this.#onGone = parts.onGone
  }

  /** What a process before this one had taken is free at once, where that cannot be running any more. */
  async open(): Promise<void> {
    if (!this.#deps.database.isShared) await releaseAllMessages(this.#deps.database.db)
  }

  /** Makes a turn in a moment, however many ask for it. */
  wake(): void {
    if (this.#isClosing || this.#timer) return
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      this.run().catch(this.#logFault)
    }, betweenTurnsMs)
  }

  /** One turn: plans what is new, tells groups that are due, begins to send what is due. Never overlaps itself. */
  async run(): Promise<void> {
    if (this.#turn) {
      this.wake()
      return this.#turn
    }
    this.#turn = this.#takeTurn().finally(() => {
      this.#turn = undefined
    })
    return this.#turn
  }

  async #takeTurn(): Promise<void> {
    const { db } = this.#deps.database
    const known = this.#directory.current.channels
    if (known.length === 0 || this.#isClosing) return
    const head = await readAlertHead(db)
    this.#tries.progress = new Map((await readProgress(db)).map((progress) => [progress.id, progress]))
    const channels = known.filter(({ id }) => this.#tries.progress.has(id))
    for (const channel of channels) {
      // One channel that cannot be planned just now holds up no other.
      const progress = this.#tries.progress.get(channel.id)!
      const hasMore = await this.#planner.plan(channel, progress, head).catch(this.#logFault)
      if (hasMore) this.wake()
    }
    await this.#planner.flushDue(channels.filter(({ type }) => allChannels[type].audience === 'people'))
    for (const channel of channels) {
      // A receiver that is left alone just now costs nothing.
      const { resumeAt } = this.#tries.progress.get(channel.id)!
      const now = this.#deps.clock.now()
      if (resumeAt !== null && resumeAt > now) continue
      if (await hasDueMessage(db, channel.id, now)) await this.#send(channel)
    }
  }

  /** Tries that may begin now. A receiver that is down is asked with one message whether it is back. */
  #freeTries({ id, type }: KnownChannel, { busy }: Lane): number {
    const { failures = 0, resumeAt = null } = this.#tries.progress.get(id) ?? {}
    if (this.#isClosing || (resumeAt !== null && resumeAt > this.#deps.clock.now())) return 0
    if (failures >= downAfter) return busy.size === 0 ? 1 : 0
    return (allChannels[type].audience === 'machines' ? machineTries : peopleTries) - busy.size
  }

  async #send(channel: KnownChannel): Promise<void> {
    const { id } = channel
    const lane = this.#lanes.get(id) ?? { queue: [], busy: new Set(), isClaiming: false }
    this.#lanes.set(id, lane)
    if (lane.isClaiming) return
    if (lane.queue.length === 0 && this.#freeTries(channel, lane) > 0) {
      lane.isClaiming = true
      try {
        lane.queue = await this.#claim(channel)
      } finally {
        lane.isClaiming = false
      }
    }
    while (lane.queue.length > 0 && this.#freeTries(channel, lane) > 0) this.#begin(channel, lane, lane.queue.shift()!)
    if (lane.queue.length > 0 && lane.busy.size === 0) await this.#giveBack(lane)
  }

  #claim({ id, type }: KnownChannel): Promise<ClaimedMessage[]> {
    const { database, clock } = this.#deps
    const isDown = (this.#tries.progress.get(id)?.failures ?? 0) >= downAfter
    const limit = isDown || allChannels[type].audience === 'people' ? 1 : machineClaim
    return claimMessages(database.db, { channelId: id, owner: this.#tries.owner, now: clock.now(), leaseMs, limit })
  }

  /** Nothing is under way that would come back to what was taken: others, or a later turn, may have it. */
  async #giveBack(lane: Lane): Promise<void> {
    const ids = lane.queue.splice(0).map(({ id }) => id)
    if (ids.length === 0) return
    await releaseMessages(this.#deps.database.db, this.#tries.owner, ids)
  }

  #begin(channel: KnownChannel, lane: Lane, message: ClaimedMessage): void {
    lane.busy.add(message.id)
    const work = this.#tries
      .make(channel, message, this.#cut.signal)
      .then((verdict) => (verdict.gone ? this.#onGone(channel.id) : undefined))
      .catch(this.#logFault)
      .then(() => {
        lane.busy.delete(message.id)
        // As it is by now: it may have moved, or been switched off.
        const current = this.#directory.current.channels.find(({ id }) => id === channel.id)
        return current?.enabled ? this.#send(current) : this.#giveBack(lane)
      })
      .catch(this.#logFault)
      .then(() => void this.#underWay.delete(work))
    this.#underWay.add(work)
  }

  readonly #logFault = (fault: unknown): void => {
    this.#deps.log.error({ err: fault }, 'alerts are held up; they are sent as soon as the fault is over')
  }

  /** Sends a message that this process holds already, and resolves with what the receiver said. */
  sendNow(channel: KnownChannel, message: ClaimedMessage) {
    return this.#tries.make(channel, message, this.#cut.signal)
  }

  /** Names this process in what it takes. */
  get owner(): string {
    return this.#tries.owner
  }

  /** Resolves when nothing is being planned or sent. */
  async whenIdle(): Promise<void> {
    await this.#turn
    while (this.#underWay.size > 0) await Promise.all(this.#underWay)
    await this.#tries.whenIdle()
  }

  /** Begins nothing more, gives tries under way a moment, cuts the others, and leaves the rest to the next process. */
  async close(graceMs: number): Promise<void> {
    this.#isClosing = true
    clearTimeout(this.#timer)
    const cut = setTimeout(() => this.#cut.abort(), graceMs)
    await this.whenIdle().catch(this.#logFault)
    clearTimeout(cut)
    this.#cut.abort()
    await this.#closeEgresses()
    await releaseMessages(this.#deps.database.db, this.#tries.owner).catch(this.#logFault)
  }
}
