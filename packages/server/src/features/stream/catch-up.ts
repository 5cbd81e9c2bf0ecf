import type { Socket } from 'node:net'
import type { Db } from '../../db/database.ts'
import type { EventFields } from '../../db/schema/events.ts'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import { namedFrame } from '../../http/sse.ts'
import type { StreamBacklog } from '../../http/stream-backlog.ts'
import { readEventsAfter } from '../events/log-statements.ts'
import { pageOf } from './frames.ts'
import type { RecentEvents } from './recent-events.ts'
import { ReplayPace } from './replay-pace.ts'

/** Rows replayed at most: the stream may be open to all, the whole history is for key holders (GET /api/events). */
const maxReplayRows = 10_000
/** Rows read for one page: large ones fill it early, and the rest is read again. */
const pageRows = 100
/** Pages that are read from the database at a time; the others wait their turn. */
const maxReads = 2
/** The lane of the database was full: it serves the next scans within about a second. */
const retryMs = 500
const logEveryMs = 1_000

export interface Follower {
  socket: Socket
  /** Whose share of replays it takes from. */
  caller: string
  /** The last seq written to it. */
  seq: number
  /** In the live round; otherwise it is brought to the head here. */
  live: boolean
}

/** Where the followers are brought to. */
interface Source {
  head(): number
  recent: RecentEvents
}

/**
 * Brings clients to the head, a page at a time. Between two pages the event loop serves everything else, callers take
 * turns, and a page follows only after the client took the one before, so no replay delays a kill.
 */
export class CatchUp {
  readonly #deps: Deps
  readonly #source: Source
  readonly #backlog: StreamBacklog
  readonly #pace = new ReplayPace()
  /** Followers that can take a page, by caller; the first caller is next. */
  readonly #waiting = new Map<string, Follower[]>()
  #reads = 0
  #isScheduled = false
  #timer: NodeJS.Timeout | undefined
  #loggedAt = -Infinity
  #isOpen = true

  constructor(deps: Deps, source: Source, backlog: StreamBacklog) {
    this.#deps = deps
    this.#source = source
    this.#backlog = backlog
  }

  /** Takes over a client that is not in the live round. */
  add(follower: Follower): void {
    follower.live = false
    const from = this.#source.head() - maxReplayRows
    if (follower.seq < from) {
      const gap = { type: 'gap', data: { after: follower.seq, resumes_after: from } }
      this.#backlog.write(follower.socket, namedFrame('gap', JSON.stringify(gap)))
      follower.seq = from
    }
    // The callback of a comment is called when everything before it was sent.
    if (follower.socket.writableLength > 0) this.#write(follower, ':\n\n')
    else this.#enqueue(follower)
  }

  close(): void {
    clearTimeout(this.#timer)
    this.#isOpen = false
    this.#waiting.clear()
  }

  #enqueue(follower: Follower): void {
    const own = this.#waiting.get(follower.caller)
    if (own) own.push(follower)
    else this.#waiting.set(follower.caller, [follower])
    this.#schedule()
  }

  #schedule(): void {
    if (this.#isScheduled || this.#waiting.size === 0 || !this.#isOpen) return
    this.#isScheduled = true
    setImmediate(() => this.#turn())
  }

  /** Serves one page, if a client may have one now. */
  #turn(): void {
    this.#isScheduled = false
    const now = this.#deps.clock.monotonic()
    let soonestMs = Infinity
    for (const [caller, own] of this.#waiting) {
      const waitMs = this.#pace.waitMs(caller, now)
      if (waitMs > 0) {
        soonestMs = Math.min(soonestMs, waitMs)
        continue
      }
      const rows = this.#source.recent.after(own[0]!.seq, pageRows)
      if (rows === undefined && this.#reads >= maxReads) continue
      const follower = this.#takeFirst(caller, own)
      if (rows) this.#serve(follower, rows)
      else void this.#readFor(follower)
      this.#schedule()
      return
    }
    if (soonestMs < Infinity) this.#retryIn(soonestMs)
  }

  /** The caller goes to the end of the line. */
  #takeFirst(caller: string, own: Follower[]): Follower {
    this.#waiting.delete(caller)
    const follower = own.shift()!
    if (own.length > 0) this.#waiting.set(caller, own)
    return follower
  }

  #retryIn(ms: number): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#schedule(), ms)
  }

  async #readFor(follower: Follower): Promise<void> {
    if (follower.socket.destroyed) return
    this.#reads += 1
    try {
      const read = (db: Db) => readEventsAfter(db, follower.seq, pageRows)
      this.#serve(follower, await this.#deps.database.scan(`stream ${follower.caller}`, read))
    } catch (fault) {
      if (fault instanceof AppError && this.#isOpen) {
        this.#enqueueLater(follower)
      } else {
        this.#logFault(fault)
        this.#backlog.cut(follower.socket, 'error')
      }
    } finally {
      this.#reads -= 1
      this.#schedule()
    }
  }

  #enqueueLater(follower: Follower): void {
    setTimeout(() => this.#enqueue(follower), retryMs).unref()
  }

  /** Every client that catches up meets the same fault. */
  #logFault(fault: unknown): void {
    const now = this.#deps.clock.monotonic()
    if (now - this.#loggedAt < logEveryMs) return
    this.#loggedAt = now
    this.#deps.log.warn({ err: fault }, 'a stream client could not catch up and was disconnected')
  }

  #serve(follower: Follower, rows: readonly EventFields[]): void {
    if (follower.socket.destroyed) return
    const page = pageOf(rows)
    this.#pace.take(follower.caller, page?.rows ?? 1, this.#deps.clock.monotonic())
    follower.seq = page?.lastSeq ?? this.#source.head()
    this.#write(follower, page?.bytes ?? ':\n\n')
  }

  #write(follower: Follower, data: Buffer | string): void {
    this.#backlog.write(follower.socket, data, () => {
      if (follower.socket.destroyed) return
      // Between this look and the next live round no event can slip in.
      if (follower.seq >= this.#source.head()) follower.live = true
      else this.#enqueue(follower)
    })
  }
}
