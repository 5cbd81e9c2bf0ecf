import { isoTime } from '../../clock.ts'
import type { Deps } from '../../deps.ts'
import { AppError, DatabaseError } from '../../errors.ts'
import { type Piece, workLane } from '../../work-turns.ts'
import { readOldest, readSeqRange } from '../events/log-statements.ts'
import { readRuleEvents } from './event-log.ts'

/** A backtest holds up to 100 MiB of state and reads as fast as the database can. */
const maxRunning = 2
const retryAfterSeconds = 5
const progressEveryMs = 500

type Events = Awaited<ReturnType<typeof readRuleEvents>>

/** The caller of a backtest. */
export interface Asking {
  keyId: string
  /** Whether the caller disconnected. */
  isAbandoned: () => boolean
}

/** Where stored events are read. */
export interface LogSpan {
  /** Where the stored events of the range begin; null without any. */
  dataFrom: number | null
  /** Seqs to read, including those before `from`; undefined: no events are stored. */
  range: { first: number; last: number } | undefined
  /** Whether events before the range are stored. */
  hasEarlier: boolean
}

/** Work on stored events in order. */
export interface Replay<Result> {
  range: LogSpan['range']
  /** Whether the work needs the tags of agents. */
  withTags: boolean
  /** Processes a page, in turns of the event loop. */
  take(events: Events, piece: Piece): Promise<void>
  finish(read: { eventsRead: number; durationMs: () => number; piece: Piece }): Promise<Result>
}

export interface Progress {
  events_read: number
  percent: number
}

/** A replay that occupies one of the `maxRunning` places. */
export interface RunningReplay<Result> {
  /** Runs it: yields progress and returns the result. */
  steps(): AsyncGenerator<Progress, Result, void>
  /** Frees the place; must be called in every case. */
  end(): void
}

type ReplayDeps = Pick<Deps, 'database' | 'clock'>

/**
 * Finds the stored events of [from, to), and `warmUpMs` before. Throws AppError `invalid` if events after `from` are deleted,
 * unless the beginning may be missing.
 */
export function readSpan(
  { database }: ReplayDeps,
  keyId: string,
  { from, to }: { from: number; to: number },
  { warmUpMs, mayBeCut = false }: { warmUpMs: number; mayBeCut?: boolean },
): Promise<LogSpan> {
  return database.scan(keyId, async (db) => {
    const { oldest } = await readOldest(db)
    // Seqs start at 1 and have no gaps: while event 1 is stored, no event was deleted.
    if (!mayBeCut && oldest && oldest.seq > 1 && from < oldest.created_at) {
      throw new AppError('invalid', `Events before ${isoTime(oldest.created_at)} are deleted: from may not be earlier.`)
    }
    const dataFrom = oldest && oldest.created_at < to ? Math.max(from, oldest.created_at) : null
    const range = await readSeqRange(db, from - warmUpMs, to)
    return { dataFrom, range, hasEarlier: oldest !== undefined && range !== undefined && oldest.seq < range.first }
  })
}

/** Replays of stored events in this process: what the service would have done, without its effects. */
export class LogReplays {
  readonly #deps: ReplayDeps
  readonly #running = new Set<string>()

  constructor(deps: ReplayDeps) {
    this.#deps = deps
  }

  /** Reserves a place. Throws AppError `quota_exceeded` or `overloaded`, and what `prepare` throws. */
  async begin<Result>(asking: Asking, prepare: () => Promise<Replay<Result>>): Promise<RunningReplay<Result>> {
    const { keyId } = asking
    if (this.#running.has(keyId)) {
      throw new AppError(
        'quota_exceeded',
        'A backtest of this key is running: end it, or wait for its result.',
        retryAfterSeconds,
      )
    }
    if (this.#running.size >= maxRunning) {
      throw new AppError(
        'overloaded',
        `${maxRunning} backtests are running; retry when one of them is done.`,
        retryAfterSeconds,
      )
    }
    this.#running.add(keyId)
    let hasPlace = true
    const end = () => {
      if (hasPlace) this.#running.delete(keyId)
      hasPlace = false
    }
    try {
      const replay = await prepare()
      return { steps: () => this.#steps(replay, asking), end }
    } catch (fault) {
      end()
      throw fault
    }
  }

  async *#steps<Result>(
    { range, withTags, take, finish }: Replay<Result>,
    { keyId, isAbandoned }: Asking,
  ): AsyncGenerator<Progress, Result, void> {
    const { database, clock } = this.#deps
    const startedAt = clock.monotonic()
    const durationMs = () => Math.round(clock.monotonic() - startedAt)
    const piece = workLane.open(`backtest ${keyId}`, { max: 1, isAbandoned })
    const pageAfter = (after: number) => {
      const page = readRuleEvents(database, keyId, { after, upTo: range!.last, withTags })
      // Awaited later; without a handler, a failure until then would be an unhandled rejection.
      page.catch(() => {})
      return page
    }
    let eventsRead = 0
    let shownAt = startedAt
    try {
      yield { events_read: 0, percent: 0 }
      let page = range && pageAfter(range.first - 1)
      while (page) {
        const events = await page
        const last = events.at(-1)?.row.seq
        // The database reads the next page while this one is processed.
        page = last === undefined ? undefined : pageAfter(last)
        await take(events, piece)
        eventsRead += events.length
        await piece.nextTurn()
        if (last === undefined || clock.monotonic() - shownAt < progressEveryMs) continue
        shownAt = clock.monotonic()
        const { first, last: end } = range!
        yield { events_read: eventsRead, percent: Math.floor((100 * (last - first + 1)) / (end - first + 1)) }
      }
      return await finish({ eventsRead, durationMs, piece })
    } finally {
      piece.end()
    }
  }
}

/** Runs a replay and returns its result without progress. */
export async function finished<Result>({ steps, end }: RunningReplay<Result>): Promise<Result> {
  try {
    const work = steps()
    for (;;) {
      const step = await work.next()
      if (step.done === true) return step.value
    }
  } finally {
    end()
  }
}

/** Runs a replay; yields a line for each progress, then one for the result or the error. */
export async function* lines<Result>({ steps, end }: RunningReplay<Result>): AsyncGenerator<string, void, void> {
  const lineOf = (line: object) => `${JSON.stringify(line)}\n`
  try {
    const work = steps()
    for (;;) {
      const step = await work.next()
      if (step.done === true) return yield lineOf({ result: step.value })
      yield lineOf({ progress: step.value })
    }
  } catch (fault) {
    if (fault instanceof AppError) return yield lineOf({ error: fault.message, code: fault.code })
    if (!(fault instanceof DatabaseError)) throw fault
    yield lineOf({ error: 'The database did not answer: repeat the backtest.', code: 'database' })
  } finally {
    end()
  }
}
