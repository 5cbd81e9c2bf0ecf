import { createHash } from 'node:crypto'
import type { Slices, WorkBudget } from '../../work-turns.ts'
import type { Correlation } from './language/correlation.ts'
import type { RuleEvent } from './language/fields.ts'
import { FiringBudget } from './language/firing-budget.ts'
import { noLists } from './language/placeholders.ts'
import { type CompiledRule, compileStored } from './language/rule.ts'
import { limitTogether } from './language/rule-memory.ts'
import { type RuleFiring, RuleSet, stepInSlices } from './language/rule-set.ts'
import { type RuleState, ruleStates } from './language/rule-state.ts'
import type { RuleRow } from './queries.ts'
import { readRule } from './rule-text.ts'
import type { RuleStart } from './runner-queries.ts'
import { StoredHistory } from './value-history.ts'

/** A rule with its state. */
export interface RunningRule {
  row: Pick<RuleRow, 'id' | 'title' | 'severity' | 'mode' | 'version' | 'changed_at' | 'list_changes'>
  compiled: CompiledRule
  /** Digest of the parts of the rule on which the state depends. */
  basis: string
  state: RuleState
  history: StoredHistory
  /** Only events after this seq are processed. */
  afterSeq: number
  /** Only firings after this seq count for cooldowns: those before were made in another mode. */
  modeAfter: number
}

/** Entries of lists are a part of the detection: other entries are another detection, as if they stood in the text. */
const basisOf = ({ document: { detection, correlation }, lists }: CompiledRule): string =>
  createHash('sha256')
    .update(JSON.stringify([detection, correlation, ...lists]))
    .digest('hex')
    .slice(0, 32)

/** Creates a rule with an empty state. Throws if it does not compile. */
export function newRunningRule(
  row: RunningRule['row'] & Pick<RuleRow, 'text'> & Partial<Pick<RuleRow, 'document'>>,
  afterSeq: number,
  lists = noLists,
): RunningRule {
  // Reading YAML takes a library of 5 MiB and, for forty rules, a quarter of a second.
  const rule = row.document ? compileStored(JSON.parse(row.document), lists) : readRule(row.text, lists).rule
  const { id, title, severity, mode, version, changed_at, list_changes } = row
  return {
    row: { id, title, severity, mode, version, changed_at, list_changes },
    compiled: rule,
    basis: basisOf(rule),
    state: ruleStates.start(rule),
    history: new StoredHistory(historySpan(rule.correlation)),
    afterSeq,
    modeAfter: afterSeq,
  }
}

/** What is stored about the start of a rule. */
export const startRow = ({ row: { id, mode }, basis, afterSeq, modeAfter }: RunningRule): RuleStart => ({
  rule_id: id,
  basis,
  after_seq: afterSeq,
  mode,
  mode_after: modeAfter,
})

/** Continues from a stored start at a position in the log. */
export function resume(rule: RunningRule, { after_seq, mode, mode_after }: RuleStart, seq: number): void {
  rule.afterSeq = Number(after_seq)
  // Null: stored by an earlier version, which kept cooldowns over a change of mode.
  rule.modeAfter = mode === null || mode === rule.row.mode ? Number(mode_after) : seq
}

/**
 * Takes over the state of an earlier version with the same basis. Another version or mode starts with new budgets, and
 * another mode without cooldowns, so that a rule that is switched to enforce acts at the next event, whatever it fired for
 * in mode observe.
 */
export function inherit(next: RunningRule, before: RunningRule, seq: number): RunningRule {
  const { row, state, history, afterSeq } = before
  const isMode = next.row.mode === row.mode
  const isSame = isMode && next.row.version === row.version
  if (!isMode) state.cooldowns.clear()
  const modeAfter = isMode ? before.modeAfter : seq
  return { ...next, state: isSame ? state : { ...state, budget: new FiringBudget() }, history, afterSeq, modeAfter }
}

const historyless = ({ type }: Correlation) => type === 'new_value'
const innerOf = ({ steps }: Correlation): Correlation[] =>
  steps.flatMap((each) => ('correlation' in each ? [each.correlation] : []))

/**
 * How far back events must be read to rebuild the state, in milliseconds. What new_value knows is stored, and so is when a
 * group fired last.
 */
export function rereadOf(correlation: Correlation): number {
  const inner = Math.max(0, ...innerOf(correlation).map(rereadOf))
  return (historyless(correlation) ? 0 : correlation.timespan) + inner
}

/** The shortest timespan of its correlations that use the history of new_value; Infinity if none does. */
const historySpan = (correlation: Correlation): number =>
  Math.min(historyless(correlation) ? correlation.timespan : Infinity, ...innerOf(correlation).map(historySpan))

/** Whether any of its correlations uses the history of new_value. */
export const asksHistory = (correlation: Correlation): boolean => historySpan(correlation) < Infinity

/** Fields, values or exceptions that name tags; what only looks like it costs a query. */
const looksAtTags = ({ document: { detection, correlation, exceptions } }: CompiledRule): boolean =>
  JSON.stringify([detection, correlation, exceptions]).includes('"tags')

/** Processes an earlier event in a state that is rebuilt. */
export function* replayEvent(
  { compiled, state, afterSeq }: RunningRule,
  event: RuleEvent,
  history: ReturnType<StoredHistory['asBefore']>,
  work: WorkBudget,
): Slices<void> {
  if (event.row.seq! <= afterSeq) return
  history.seq = event.row.seq!
  yield* stepInSlices({ compiled, state, history }, event, work)
}

/** The rules that run, and what they need of an event. */
export class RunningSet {
  readonly rules: readonly RunningRule[]
  readonly withTags: boolean
  readonly #set: RuleSet<RunningRule>
  readonly #histories: StoredHistory[]

  constructor(rules: readonly RunningRule[]) {
    this.rules = rules
    limitTogether(rules)
    this.#set = new RuleSet(rules)
    this.withTags = rules.some(({ compiled }) => looksAtTags(compiled))
    this.#histories = rules.filter(({ compiled }) => asksHistory(compiled.correlation)).map(({ history }) => history)
  }

  /** Processes the next event of the log in all rules. */
  take(event: RuleEvent, work: WorkBudget): Slices<readonly RuleFiring<RunningRule>[]> {
    return this.#set.takeInSlices(event, work)
  }

  /** Firings beyond the budgets since the last call, by hour of the events. */
  takeSuppressed(): { row: RunningRule['row']; hour: number; count: number }[] {
    return this.rules.flatMap(({ row, state }) =>
      state.budget.takeSuppressed().map(([hour, count]) => ({ row, hour, count })),
    )
  }

  /** Rows of new_value that wait to be written. */
  pendingValues(): number {
    return this.#histories.reduce((sum, { pending }) => sum + pending, 0)
  }
}
