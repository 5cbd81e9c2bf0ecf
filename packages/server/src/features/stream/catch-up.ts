import type { Socket } from 'node:net'
import type { Db } from '../../db/database.ts'
import type { EventFields } from '../../db/schema/events.ts'
import { readTeam } from '../../db/teams.ts'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import { namedFrame } from '../../http/sse.ts'
import type { StreamBacklog } from '../../http/stream-backlog.ts'
import { OwnerTurns } from '../../owner-turns.ts'
import type { LogFollower } from '../events/log-follower.ts'
import { readEventsAfter } from '../events/log-statements.ts'
import { pageOf } from './frames.ts'
import { ReplayPace } from './replay-pace.ts'

/** Maximum rows replayed. The stream can be public; the full history needs a key (GET /api/events). */
const maxReplayRows = 10_000
/** Rows read per page. Large rows fill a page early, and the rest is read again. */
const pageRows = 100
/** Rows in memory that are compared with a team at once. */
const teamRows = 1_000
/** Concurrent page reads from the database; further ones wait. */
const maxReads = 2
/** Delay after the database lane was full; it serves the next scans within about a second. */
const retryMs = 500
const logEveryMs = 1_000

export interface Follower {
  socket: Socket
  /** Caller whose replay budget this client uses. */
  caller: string
  /** Last seq written to the socket. */
  seq: number
  /** True when it gets live events; otherwise it is catching up to the head. */
  live: boolean
  /** With a team it is never live: the agents of each page are compared with the team, which may have changed. */
  team?: readonly string[]
  /** Whether it waits at the head for further events, with a team. */
  isIdle?: boolean
}

/**
 * Replays stored events to clients until they reach the head, one page at a time. The event loop is free between pages,
 * callers take turns, and each page waits until the client has received the previous one, so a replay never delays a
 * kill.
 */
export class CatchUp {
  readonly #deps: Deps
  readonly #source: Pick<LogFollower, 'head' | 'after'>
  readonly #backlog: StreamBacklog
  readonly #pace = new ReplayPace()
  /** Followers ready for a page, by caller. */
  #waiting = new OwnerTurns<Follower>()
  #reads = 0
  #isScheduled = false
  #timer: NodeJS.Timeout | undefined
  #loggedAt = -Infinity
  #isOpen = true

  constructor(deps: Deps, source: Pick<LogFollower, 'head' | 'after'>, backlog: StreamBacklog) {
    this.#deps = deps
    this.#source = source
    this.#backlog = backlog
  }

  /** Starts catching up a client. */
  add(follower: Follower): void {
    follower.live = false
    const from = this.#source.head - maxReplayRows
    if (follower.seq < from) {
      const gap = { type: 'gap', data: { after: follower.seq, resumes_after: from } }
      this.#backlog.write(follower.socket, namedFrame('gap', JSON.stringify(gap)))
      follower.seq = from
    }
    // An SSE comment's write callback runs once everything before it was sent.
    if (follower.socket.writableLength > 0) this.#write(follower, ':\n\n')
    else this.#enqueue(follower)
  }

  /** Continues with a client limited to a team after further events. */
  wake(follower: Follower): void {
    if (!follower.isIdle || follower.seq >= this.#source.head) return
    follower.isIdle = false
    this.#enqueue(follower)
  }

  close(): void {
    clearTimeout(this.#timer)
    this.#isOpen = false
    this.#waiting = new OwnerTurns()
  }

  #enqueue(follower: Follower): void {
    this.#waiting.add(follower.caller, follower)
    this.#schedule()
  }

  #schedule(): void {
    if (this.#isScheduled || this.#waiting.size === 0 || !this.#isOpen) return
    this.#isScheduled = true
    setImmediate(() => this.#turn())
  }

  /** Serves one page if a client's budget allows it. */
  #turn(): void {
    this.#isScheduled = false
    const now = this.#deps.clock.monotonic()
    let soonestMs = Infinity
    let rows: readonly EventFields[] | undefined
    const follower = this.#waiting.take((caller, { seq, team }) => {
      const waitMs = this.#pace.waitMs(caller, now)
      if (waitMs > 0) {
        soonestMs = Math.min(soonestMs, waitMs)
        return true
      }
      rows = this.#source.after(seq, team ? teamRows : pageRows)
      return rows === undefined && this.#reads >= maxReads
    })
    if (follower) {
      if (rows) this.#serve(follower, rows, this.#source.head)
      else void this.#readFor(follower)
      this.#schedule()
    } else if (soonestMs < Infinity) {
      clearTimeout(this.#timer)
      this.#timer = setTimeout(() => this.#schedule(), soonestMs)
    }
  }

  async #readFor(follower: Follower): Promise<void> {
    if (follower.socket.destroyed) return
    this.#reads += 1
    // Events that are stored during the read may be missing from it.
    const { head } = this.#source
    try {
      const read = (db: Db) => readEventsAfter(db, follower.seq, pageRows)
      this.#serve(follower, await this.#deps.database.scan(`stream ${follower.caller}`, read), head)
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

  /** Rate-limited, because every client that is catching up gets the same error. */
  #logFault(fault: unknown): void {
    const now = this.#deps.clock.monotonic()
    if (now - this.#loggedAt < logEveryMs) return
    this.#loggedAt = now
    this.#deps.log.warn({ err: fault }, 'a stream client could not catch up and was disconnected')
  }

  /** `head`: where the log ended when the rows were read; without rows, the client has everything up to there. */
  #serve(follower: Follower, rows: readonly EventFields[], head: number): void {
    if (follower.socket.destroyed) return
    if (follower.team && rows.length > 0) return void this.#serveTeam(follower, rows, follower.team)
    const page = pageOf(rows)
    this.#pace.take(follower.caller, page?.rows ?? 1, this.#deps.clock.monotonic())
    follower.seq = page?.lastSeq ?? head
    this.#write(follower, page?.bytes ?? ':\n\n')
  }

  /** Sends what is of the team's agents; nothing shows that others had events. */
  async #serveTeam(follower: Follower, rows: readonly EventFields[], team: readonly string[]): Promise<void> {
    this.#pace.take(follower.caller, rows.length, this.#deps.clock.monotonic())
    try {
      const ids = new Set(rows.flatMap(({ instance_id }) => instance_id ?? []))
      const members = await readTeam(this.#deps.database.db, team, [...ids])
      if (follower.socket.destroyed) return
      const own = rows.filter(({ instance_id }) => instance_id !== null && members.has(instance_id))
      const page = pageOf(own)
      follower.seq = page && page.rows < own.length ? page.lastSeq : rows.at(-1)!.seq
      if (page) this.#write(follower, page.bytes)
      else this.#continue(follower)
    } catch (fault) {
      this.#logFault(fault)
      this.#backlog.cut(follower.socket, 'error')
    }
  }

  #write(follower: Follower, data: Buffer | string): void {
    this.#backlog.write(follower.socket, data, () => this.#continue(follower))
  }

  #continue(follower: Follower): void {
    if (follower.socket.destroyed) return
    // No event can arrive between this check and the next live write.
    if (follower.seq < this.#source.head) this.#enqueue(follower)
    else if (follower.team) follower.isIdle = true
    else follower.live = true
  }
}
