import { WriteBehind } from '../../db/write-behind.ts'
import type { Deps } from '../../deps.ts'
import { randomSecret } from '../../ids.ts'
import type { ControlStream } from './control-stream.ts'
import {
  aliveStatement,
  closedStatement,
  endedStatements,
  findListening,
  forgottenStatements,
  type Listening,
  openedStatement,
  type StreamCells,
} from './stream-statements.ts'

const aliveEveryMs = 5_000
/** After this pause a process is removed. Readers stop counting its streams earlier, see `aliveForMs`. */
const forgetAfterMs = 60_000
/** Streams of processes that are gone, removed per transaction: a kill waits at most some ten milliseconds for it. */
const forgottenRows = 1_000

/**
 * Records which instances have a stream open on this process, so that every process knows who is reachable by stream.
 * Written once a second: agents that reconnect together after a restart cost one transaction per five hundred.
 */
export class OpenStreams {
  readonly #deps: Pick<Deps, 'database' | 'clock'>
  readonly #stream: Pick<ControlStream, 'understood'>
  readonly #process = randomSecret(6)
  /** Open streams of this process as stored in the database: understood kinds by instance. */
  readonly #written = new Map<string, string>()
  /** Instances whose stored row may be out of date. */
  readonly #changed = new WriteBehind<true>({
    merge: () => true,
    write: (changed) => this.#writeThese(changed.map(([id]) => id)),
  })
  #startedAt: number | undefined
  /** Monotonic time of the last sign of life. */
  #aliveAt: number | undefined

  constructor(deps: Pick<Deps, 'database' | 'clock'>, { controlStream }: { controlStream: ControlStream }) {
    this.#deps = deps
    this.#stream = controlStream
    controlStream.onChange((instanceId) => this.#changed.note(instanceId, true))
  }

  /** Writes periodically a sign of life, and the changes. */
  async write(): Promise<void> {
    // First, because it shows whether the rows of this process must be written again.
    if (this.#isDue && this.#written.size > 0) await this.#writeThese([])
    await this.#changed.write()
  }

  get #isDue(): boolean {
    return this.#aliveAt === undefined || this.#deps.clock.monotonic() - this.#aliveAt >= aliveEveryMs
  }

  /** Finds those instances that have a stream open on any process, at most a second out of date. */
  find(ids: readonly string[]): Promise<Listening[]> {
    return findListening(this.#deps.database, ids, this.#deps.clock.now())
  }

  /** Call on shutdown: removes all streams of this process. */
  async end(): Promise<void> {
    const { database } = this.#deps
    await database.batch(endedStatements(database.db, this.#process))
  }

  async #writeThese(ids: readonly string[]): Promise<void> {
    const { database, clock } = this.#deps
    const opened: StreamCells[] = []
    const closed: string[] = []
    for (const id of ids) {
      const understands = this.#stream.understood(id)?.join(',')
      // An agent that reconnected within the second causes no write.
      if (understands === undefined) {
        if (this.#written.has(id)) closed.push(id)
      } else if (this.#written.get(id) !== understands) opened.push([id, understands])
    }
    if (ids.length > 0 && opened.length + closed.length === 0) return
    const isDue = this.#isDue
    const now = clock.now()
    // A SQLite file has one process: all others are gone.
    const gone = database.isShared ? now - forgetAfterMs : Number.MAX_SAFE_INTEGER
    const [alive] = await database.batch([
      aliveStatement(database.db, this.#process, now),
      ...(opened.length > 0 ? [openedStatement(database, this.#process, opened)] : []),
      ...(closed.length > 0 ? [closedStatement(database, this.#process, closed)] : []),
      ...(isDue ? forgottenStatements(database.db, this.#process, gone, forgottenRows) : []),
    ])
    const startedAt = Number(alive?.[0]?.started_at)
    if (isDue) this.#aliveAt = clock.monotonic()
    for (const [id, understands] of opened) this.#written.set(id, understands)
    for (const id of closed) this.#written.delete(id)
    if (this.#startedAt !== undefined && startedAt !== this.#startedAt)
      this.#recordAgain(new Set(opened.map(([id]) => id)))
    this.#startedAt = startedAt
  }

  /** Another process considered this one gone and removed its rows: write them again. */
  #recordAgain(except: ReadonlySet<string>): void {
    for (const id of this.#written.keys()) {
      if (except.has(id)) continue
      this.#written.delete(id)
      this.#changed.note(id, true)
    }
  }
}
