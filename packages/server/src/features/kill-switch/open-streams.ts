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
/** A process that stands still for longer is given up; those who read count its streams no more long before. */
const forgetAfterMs = 60_000
/** Rows of one transaction: a kill waits no longer than some ten milliseconds behind it. */
const batchRows = 1_000

/**
 * Records which instances listen to this process, so that any process can say who is reached by a stream. Written once
 * a second: agents that reconnect together after a restart cost one transaction for each thousand.
 */
export class OpenStreams {
  readonly #deps: Pick<Deps, 'database' | 'clock'>
  readonly #stream: Pick<ControlStream, 'understood'>
  readonly #process = randomSecret(6)
  /** What the database says of this process. */
  readonly #written = new Map<string, string>()
  /** Instances of which it may say something else than what is so. */
  #changed = new Set<string>()
  #startedAt: number | undefined
  /** Monotonic. */
  #aliveAt: number | undefined

  constructor(deps: Pick<Deps, 'database' | 'clock'>, { controlStream }: { controlStream: ControlStream }) {
    this.#deps = deps
    this.#stream = controlStream
    controlStream.onChange((instanceId) => this.#changed.add(instanceId))
  }

  /** Writes what changed, and now and then a sign of life. What could not be written is written the next time. */
  async write(): Promise<void> {
    for (let isFirst = true; isFirst || this.#changed.size > 0; isFirst = false) {
      const ids = [...this.#changed].slice(0, batchRows)
      for (const id of ids) this.#changed.delete(id)
      try {
        await this.#writeThese(ids)
      } catch (fault) {
        for (const id of ids) this.#changed.add(id)
        throw fault
      }
    }
  }

  /** Those of the instances that listen to any process; what is open or closed for a second is known. */
  find(ids: readonly string[]): Promise<Listening[]> {
    return findListening(this.#deps.database, ids, this.#deps.clock.now())
  }

  /** On shutdown: the process holds no stream any more. */
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
      // An agent that reconnected within the second changes nothing.
      if (understands === undefined) {
        if (this.#written.has(id)) closed.push(id)
      } else if (this.#written.get(id) !== understands) opened.push([id, understands])
    }
    const isIdle = opened.length + closed.length === 0
    const isDue = this.#aliveAt === undefined || clock.monotonic() - this.#aliveAt >= aliveEveryMs
    if (isIdle && !(isDue && this.#written.size > 0)) return
    const now = clock.now()
    // A file has one process: all others are gone.
    const gone = database.isShared ? now - forgetAfterMs : Number.MAX_SAFE_INTEGER
    const [alive] = await database.batch([
      aliveStatement(database.db, this.#process, now),
      ...(opened.length > 0 ? [openedStatement(database, this.#process, opened)] : []),
      ...(closed.length > 0 ? [closedStatement(database, this.#process, closed)] : []),
      ...(isDue ? forgottenStatements(database.db, this.#process, gone, batchRows) : []),
    ])
    const startedAt = Number(alive?.[0]?.started_at)
    if (isDue) this.#aliveAt = clock.monotonic()
    for (const [id, understands] of opened) this.#written.set(id, understands)
    for (const id of closed) this.#written.delete(id)
    if (this.#startedAt !== undefined && startedAt !== this.#startedAt)
      this.#recordAgain(new Set(opened.map(([id]) => id)))
    this.#startedAt = startedAt
  }

  /** Others gave this process up, and removed its rows. */
  #recordAgain(except: ReadonlySet<string>): void {
    for (const id of this.#written.keys()) {
      if (except.has(id)) continue
      this.#written.delete(id)
      this.#changed.add(id)
    }
  }
}
