import { type BacktestBody, type BacktestLine, type RuleBacktest, ruleLimits } from '@wardline/contract'
import { hourMs, isoTime, isoTimeOrNull, minuteMs } from '../../clock.ts'
import type { Db } from '../../db/database.ts'
import type { Deps } from '../../deps.ts'
import { AppError, DatabaseError } from '../../errors.ts'
import { type Piece, WorkBudget, workLane } from '../../work-turns.ts'
import { readOldest, readSeqRange } from '../events/log-statements.ts'
import { BacktestTally } from './backtest-tally.ts'
import { readRuleEvents } from './event-log.ts'
import type { Correlation } from './language/correlation.ts'
import type { CompiledRule } from './language/rule.ts'
import { lookbackOf } from './language/rule-state.ts'
import { readListsOf } from './list-queries.ts'
import { findRule } from './queries.ts'
import { RuleTurn } from './rule-pace.ts'
import { readRule, textOf } from './rule-text.ts'
import { unknownRule } from './rules.ts'
import { newRunningRule, type RunningRule, RunningSet } from './running-rule.ts'

/** A backtest holds up to 100 MiB of rule state and reads as fast as the database can. */
const maxRunning = 2
const retryAfterSeconds = 5
const progressEveryMs = 500

/** The caller of a backtest. */
interface Asking {
  keyId: string
  /** Whether the caller disconnected. */
  isAbandoned: () => boolean
}

interface Plan {
  running: RunningRule
  from: number
  to: number
  /** Where the stored events of the range begin; null without any. */
  dataFrom: number | null
  /** Seqs to read, including the warm-up of the rule; undefined: no events are stored. */
  range: { first: number; last: number } | undefined
}

type Progress = Extract<BacktestLine, { progress: unknown }>['progress']

/** A backtest that occupies one of the `maxRunning` places. */
interface Backtest {
  /** Runs the backtest: yields progress and returns the result. */
  steps(): AsyncGenerator<Progress, RuleBacktest, void>
  /** Frees the place; must be called in every case. */
  end(): void
}

const learningOf = ({ learning, steps }: Correlation): number =>
  Math.max(learning, ...steps.map((each) => ('correlation' in each ? learningOf(each.correlation) : 0)))

/**
 * How much earlier than `from` to start reading: windows, learning of new_value, cooldowns and budgets depend on it.
 */
const warmUpOf = (rule: CompiledRule): number =>
  lookbackOf(rule) + learningOf(rule.correlation) + rule.cooldown + minuteMs

function timesOf({ from, to }: BacktestBody, now: number): { from: number; to: number } {
  const [begin, end] = [Date.parse(from), to === undefined ? now : Date.parse(to)]
  if (Number.isNaN(begin) || Number.isNaN(end) || begin >= end) {
    throw new AppError('invalid', 'from must be before to, both ISO 8601 instants.')
  }
  if (end - begin > ruleLimits.backtestHours * hourMs) {
    throw new AppError('invalid', `from and to may be ${ruleLimits.backtestHours / 24} days apart at most.`)
  }
  return { from: begin, to: end }
}

/** Backtests of this process: they run the code of the runner over the same rows, without its effects. */
export class Backtests {
  readonly #deps: Pick<Deps, 'database' | 'clock'>
  readonly #running = new Set<string>()

  constructor(deps: Pick<Deps, 'database' | 'clock'>) {
    this.#deps = deps
  }

  /** Reserves a place. Throws AppError `invalid`, `not_found`, `quota_exceeded` or `overloaded`. */
  async begin(asked: BacktestBody, asking: Asking): Promise<Backtest> {
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
      const plan = await this.#plan(asked, keyId)
      return { steps: () => this.#steps(plan, asking), end }
    } catch (fault) {
      end()
      throw fault
    }
  }

  async #plan(asked: BacktestBody, keyId: string): Promise<Plan> {
    const { database, clock } = this.#deps
    const { from, to } = timesOf(asked, clock.now())
    const running = await this.#compile(asked)
    return database.scan(keyId, async (db) => {
      const { oldest } = await readOldest(db)
      // Seqs start at 1 and have no gaps: while event 1 is stored, no event was deleted.
      if (oldest && oldest.seq > 1 && from < oldest.created_at) {
        throw new AppError(
          'invalid',
          `Events before ${isoTime(oldest.created_at)} are deleted: from may not be earlier.`,
        )
      }
      const dataFrom = oldest && oldest.created_at < to ? Math.max(from, oldest.created_at) : null
      const range = await readSeqRange(db, from - warmUpOf(running.compiled), to)
      if (oldest && range && oldest.seq < range.first) running.state.since = Number.NEGATIVE_INFINITY
      return { running, from, to, dataFrom, range }
    })
  }

  async #compile({ rule, id, lists: given = {} }: BacktestBody): Promise<RunningRule> {
    if ((rule === undefined) === (id === undefined)) {
      throw new AppError('invalid', 'Give either rule (a document or its text) or the id of a stored rule.')
    }
    const stored = id === undefined ? undefined : await findRule(this.#deps.database.db, id)
    if (id !== undefined && !stored) throw unknownRule(id)
    const source = stored?.text ?? rule!
    const known = await readListsOf(this.#deps.database.db, [textOf(source)])
    const lists = { get: (name: string) => (Object.hasOwn(given, name) ? given[name] : known.get(name)) }
    const { text, rule: compiled } = readRule(source, lists)
    const { title, severity } = compiled.document
    const row = {
      id: id ?? '',
      title,
      severity,
      mode: 'enforce',
      version: stored?.version ?? 1,
      changed_at: 0,
      list_changes: 0,
    } as const
    return newRunningRule({ ...row, text }, 0, lists)
  }

  async *#steps(plan: Plan, { keyId, isAbandoned }: Asking): AsyncGenerator<Progress, RuleBacktest, void> {
    const { database, clock } = this.#deps
    const { running, from, to, dataFrom, range } = plan
    const startedAt = clock.monotonic()
    const tally = new BacktestTally(running.compiled, plan)
    const set = new RunningSet([running])
    const piece = workLane.open(`backtest ${keyId}`, { max: 1, isAbandoned })
    const pageAfter = (after: number) => {
      const page = readRuleEvents(database, keyId, { after, upTo: range!.last, withTags: set.withTags })
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
        await this.#takeAll(events, set, tally, piece)
        // Discards what new_value would store.
        if (running.history.pending > 0) running.history.takeChanges()
        eventsRead += events.length
        await piece.nextTurn()
        if (last === undefined || clock.monotonic() - shownAt < progressEveryMs) continue
        shownAt = clock.monotonic()
        const { first, last: end } = range!
        yield { events_read: eventsRead, percent: Math.floor((100 * (last - first + 1)) / (end - first + 1)) }
      }
      // Windows that end within the range, as the next events show. What these cause is outside of the range.
      if (running.compiled.watchesTime && range) {
        const next = await readRuleEvents(database, keyId, { after: range.last, upTo: Number.MAX_SAFE_INTEGER })
        await this.#takeAll(next, set, tally, piece)
      }
      const found = await tally.result(<Result>(query: (db: Db) => Promise<Result>) => database.scan(keyId, query))
      return {
        from: isoTime(from),
        to: isoTime(to),
        data_from: isoTimeOrNull(dataFrom),
        ...found,
        events_read: eventsRead,
        evicted: running.state.memory.evicted + running.history.memory.evicted,
        duration_ms: Math.round(clock.monotonic() - startedAt),
      }
    } finally {
      piece.end()
    }
  }

  /** Runs a page of events through the rule, in turns of the event loop as long as the runner's. */
  async #takeAll(
    events: Awaited<ReturnType<typeof readRuleEvents>>,
    set: RunningSet,
    tally: BacktestTally,
    piece: Piece,
  ): Promise<void> {
    const turn = new RuleTurn(this.#deps.clock)
    const work = new WorkBudget(Number.POSITIVE_INFINITY)
    const [{ state }] = set.rules as [RunningRule]
    for (const event of events) {
      const steps = set.take(event, work)
      let step = steps.next()
      for (; step.done !== true; step = steps.next()) {
        await piece.nextTurn()
        turn.begin()
      }
      for (const { firing } of step.value) tally.add(firing)
      for (const [, count] of state.budget.takeSuppressed()) tally.addSuppressed(state.time, count)
      if (turn.isOver()) {
        await piece.nextTurn()
        turn.begin()
      }
    }
  }
}

/** Runs a backtest and returns its result without progress. */
export async function finished({ steps, end }: Backtest): Promise<RuleBacktest> {
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

/** Runs a backtest; yields a line for each progress, then one for the result or the error. */
export async function* lines({ steps, end }: Backtest): AsyncGenerator<string, void, void> {
  const lineOf = (line: BacktestLine) => `${JSON.stringify(line)}\n`
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
