import { type BacktestBody, type RuleBacktest, ruleLimits } from '@wardline/contract'
import { hourMs, isoTime, isoTimeOrNull, minuteMs } from '../../clock.ts'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import { type Piece, WorkBudget } from '../../work-turns.ts'
import { BacktestTally } from './backtest-tally.ts'
import { readRuleEvents } from './event-log.ts'
import type { Correlation } from './language/correlation.ts'
import type { CompiledRule } from './language/rule.ts'
import { lookbackOf } from './language/rule-state.ts'
import { readListsOf } from './list-queries.ts'
import { type Asking, type LogReplays, type LogSpan, type Replay, type RunningReplay, readSpan } from './log-replay.ts'
import { findRule } from './queries.ts'
import { RuleTurn } from './rule-pace.ts'
import { readRule, textOf } from './rule-text.ts'
import { unknownRule } from './rules.ts'
import { newRunningRule, type RunningRule, RunningSet } from './running-rule.ts'

interface Plan extends LogSpan {
  running: RunningRule
  from: number
  to: number
}

const learningOf = ({ learning, steps }: Correlation): number =>
  Math.max(learning, ...steps.map((each) => ('correlation' in each ? learningOf(each.correlation) : 0)))

/**
 * How much earlier than `from` to start reading: windows, learning of new_value, cooldowns and budgets depend on it.
 */
const warmUpOf = (rule: CompiledRule): number =>
  lookbackOf(rule) + learningOf(rule.correlation) + rule.cooldown + minuteMs

/** Returns the range of a backtest in epoch milliseconds. Throws AppError `invalid`. */
export function timesOf({ from, to }: Pick<BacktestBody, 'from' | 'to'>, now: number): { from: number; to: number } {
  const [begin, end] = [Date.parse(from), to === undefined ? now : Date.parse(to)]
  if (Number.isNaN(begin) || Number.isNaN(end) || begin >= end) {
    throw new AppError('invalid', 'from must be before to, both ISO 8601 instants.')
  }
  if (end - begin > ruleLimits.backtestHours * hourMs) {
    throw new AppError('invalid', `from and to may be ${ruleLimits.backtestHours / 24} days apart at most.`)
  }
  return { from: begin, to: end }
}

/** Backtests of rules: they run the code of the runner over the same rows, without its effects. */
export class Backtests {
  readonly #deps: Pick<Deps, 'database' | 'clock'>
  readonly #replays: LogReplays

  constructor(deps: Pick<Deps, 'database' | 'clock'>, { logReplays }: { logReplays: LogReplays }) {
    this.#deps = deps
    this.#replays = logReplays
  }

  /** Reserves a place. Throws AppError `invalid`, `not_found`, `quota_exceeded` or `overloaded`. */
  begin(asked: BacktestBody, asking: Asking): Promise<RunningReplay<RuleBacktest>> {
    return this.#replays.begin(asking, async () => this.#replayOf(await this.#plan(asked, asking.keyId), asking.keyId))
  }

  async #plan(asked: BacktestBody, keyId: string): Promise<Plan> {
    const times = timesOf(asked, this.#deps.clock.now())
    const running = await this.#compile(asked)
    const span = await readSpan(this.#deps, keyId, times, { warmUpMs: warmUpOf(running.compiled) })
    if (span.hasEarlier) running.state.since = Number.NEGATIVE_INFINITY
    return { running, ...times, ...span }
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

  #replayOf(plan: Plan, keyId: string): Replay<RuleBacktest> {
    const { database } = this.#deps
    const { running, from, to, dataFrom, range } = plan
    const tally = new BacktestTally(running.compiled, plan)
    const set = new RunningSet([running])
    return {
      range,
      withTags: set.withTags,
      take: async (events, piece) => {
        await this.#takeAll(events, set, tally, piece)
        // Discards what new_value would store.
        if (running.history.pending > 0) running.history.takeChanges()
      },
      finish: async ({ eventsRead, durationMs, piece }) => {
        // Windows that end within the range, as the next events show. What these cause is outside of the range.
        if (running.compiled.watchesTime && range) {
          const next = await readRuleEvents(database, keyId, { after: range.last, upTo: Number.MAX_SAFE_INTEGER })
          await this.#takeAll(next, set, tally, piece)
        }
        const found = await tally.result(database, keyId)
        return {
          from: isoTime(from),
          to: isoTime(to),
          data_from: isoTimeOrNull(dataFrom),
          ...found,
          events_read: eventsRead,
          evicted: running.state.memory.evicted + running.history.memory.evicted,
          duration_ms: durationMs(),
        }
      },
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
