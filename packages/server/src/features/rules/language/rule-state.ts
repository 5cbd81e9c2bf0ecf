import { eventTypes, ruleLimits } from '@wardline/contract'
import { minuteMs, startOf } from '../../../clock.ts'
import { type Slices, WorkBudget } from '../../../work-turns.ts'
import { takeEnded } from './absence.ts'
import { askedOnce } from './asked-once.ts'
import { Cooldowns, type Fired } from './cooldowns.ts'
import { advance, type Bounds, type CorrelationState, isMet, newState, type ValueHistory } from './correlation.ts'
import type { RuleEvent } from './fields.ts'
import { FiringBudget, type SpentFirings } from './firing-budget.ts'
import { instanceOf } from './group-keys.ts'
import type { FiredEvent } from './groups.ts'
import { MemoryLimit } from './memory-limit.ts'
import type { Predicate } from './predicate.ts'
import type { CompiledRule } from './rule.ts'
import { stateBytes } from './rule-memory.ts'

/** The state of a rule, which depends only on the events so far. */
export interface RuleState {
  /** Highest time of the matched events, in epoch milliseconds; of all events if the rule watches the time. */
  time: number
  /** If it watches the time: that of the first event it saw; before the first one infinite. */
  since: number
  root: CorrelationState
  cooldowns: Cooldowns
  budget: FiringBudget
  /** Limit of groups and cooldowns; also counts what was dropped since the state was created, and dropped budgets. */
  memory: MemoryLimit
}

/** A match of a rule. The same events always cause the same firings, so rule, group and seq identify one. */
export interface Firing {
  /** Values of group-by as a JSON list. */
  group: string
  /** Effective time of the event that completed it; of a late one, when the window of its event ended. */
  time: number
  seq: number
  /** The event that completed it, or whose window ended. */
  event: FiredEvent
  /** Seqs of the newest 100 events that caused it, oldest first. */
  events: number[]
  /** Count of events, values or rules. */
  count: number
  /** Whether all events that caused it are of one instance: else another agent may have had it fire about this one. */
  ofOneInstance: boolean
}

/** Maximum events listed in a firing: they are for people to look at, and `count` includes the others. */
const firingEvents = 100

/** Events that rules cause: a rule that matched its own would fire for ever. */
const rulesOwnTypes: ReadonlySet<string> = new Set([eventTypes.ruleMatched, eventTypes.ruleStateEvicted])

function start({ correlation }: CompiledRule, bytes: number = stateBytes): RuleState {
  const memory = new MemoryLimit(bytes)
  return {
    time: Number.NEGATIVE_INFINITY,
    since: Number.POSITIVE_INFINITY,
    root: newState(correlation, memory),
    cooldowns: new Cooldowns(memory),
    budget: new FiringBudget(),
    memory,
  }
}

const timeOf = askedOnce('time', ({ row }: RuleEvent) => Date.parse(row.created_at))

/** Whether all rules ignore an event. */
function isPassedOver({ row }: RuleEvent): boolean {
  if (!row.by_service) return false
  // When an operator tests a decoy, an enforcing rule must not act on agents.
  const isTest = row.event_type === eventTypes.honeypotTriggered && row.metadata?.test === true
  return isTest || rulesOwnTypes.has(row.event_type)
}

export const ruleBounds: Bounds = {
  instances: ruleLimits.firingInstances,
  firings: ruleLimits.minuteFirings,
}

/**
 * Runs one event through a rule and updates its state. Pass every event of the log once, in order of seq. Live
 * evaluation, restart and backtest share this code, here or in `stepMatched`. The clock is the time of the events.
 */
export function step(
  rule: CompiledRule,
  state: RuleState,
  event: RuleEvent,
  history: ValueHistory,
  bounds: Bounds = ruleBounds,
  work?: WorkBudget,
): readonly Firing[] {
  const passing = passTime(rule, state, event, bounds, work ?? new WorkBudget(Number.POSITIVE_INFINITY))
  let passed = passing.next()
  while (passed.done !== true) passed = passing.next()
  const matched = rule.predicates.filter(({ matches }) => matches(event, work))
  const firings = stepMatched(rule, state, event, matched, history, bounds)
  return passed.value.length === 0 ? firings : [...passed.value, ...firings]
}

/** Units of judging an event whose window ended. */
const endedUnits = 1_000

/**
 * Lets a rule that watches the time know that of an event, before the event itself. Returns the firings of the events whose
 * windows ended before it.
 */
export function* passTime(
  { watchesTime, correlation, cooldown }: CompiledRule,
  state: RuleState,
  event: RuleEvent,
  bounds: Bounds,
  work: WorkBudget,
): Slices<readonly Firing[]> {
  if (!watchesTime) return noFiring
  const at = timeOf(event)
  if (state.since === Number.POSITIVE_INFINITY) state.since = at
  // What rules cause is not in the log of a backtest.
  if (isPassedOver(event)) return noFiring
  state.time = Math.max(state.time, at)
  if (!correlation.isLate) return noFiring
  const firings: Firing[] = []
  for (;;) {
    const found = takeEnded(state.root.groups, state.time - correlation.timespan, firingEvents)
    if (found === undefined) return firings
    work.count(endedUnits)
    if (work.isSliceOver()) yield
    const { group, event: ended, count, seqs: events, ofOneInstance } = found
    if (!isMet(correlation, count)) continue
    const time = found.time + correlation.timespan
    const instance = ended.instance_id ?? ''
    const isFull = firings.length >= ruleLimits.endedWindows
    const spend = () =>
      isFull ? state.budget.suppress(time) : state.budget.take(ended, { time, bounds, counter: state.memory })
    if (!state.cooldowns.mayFire({ group, instance, time }, cooldown, spend)) continue
    firings.push({ group, time, seq: ended.seq!, event: ended, events, count, ofOneInstance })
  }
}

/** Like `step`, for an event whose matching predicates are known. */
export function stepMatched(
  rule: CompiledRule,
  state: RuleState,
  event: RuleEvent,
  matched: readonly Predicate[],
  history: ValueHistory,
  bounds: Bounds,
): readonly Firing[] {
  if (matched.length === 0 || isPassedOver(event)) return noFiring
  const { correlation, cooldown } = rule
  const { seq } = event.row
  const at = timeOf(event)
  if (rule.isExcepted(event, at)) return noFiring
  state.time = Math.max(state.time, at)
  const { time } = state
  const spend = () => state.budget.take(event.row, { time, bounds, counter: state.memory })
  // The only state of a rule without correlation and cooldown is its budget.
  if (correlation.timespan === 0 && cooldown === 0) {
    if (!spend()) return noFiring
    const { text: group } = correlation.group(event)!
    return [{ group, time, seq, event: event.row, events: [seq], count: 1, ofOneInstance: true }]
  }
  const instance = instanceOf(event)
  const { since } = state
  const hits = advance(correlation, state.root, event, matched, { time, seq, history, since })
  // An event that belongs to several groups fires for one of them, since its seq names the firing.
  const hit = hits.find(({ group }) => state.cooldowns.mayFire({ group, instance, time }, cooldown, spend))
  state.memory.settle(instance)
  if (!hit) return noFiring
  const { group, count, ofOneInstance } = hit
  return [{ group, time, seq, event: event.row, events: hit.seqs().slice(-firingEvents), count, ofOneInstance }]
}

const noFiring: readonly Firing[] = []

/**
 * Returns how far back events must be read to rebuild a state, in milliseconds. Cooldowns are restored by setFirings.
 */
export function lookbackOf({ correlation }: Pick<CompiledRule, 'correlation'>): number {
  const inner = correlation.steps.map((each) => ('correlation' in each ? lookbackOf(each) : 0))
  return correlation.timespan + Math.max(0, ...inner)
}

/** Replaces the earlier firings of a rebuilt state by the stored ones, oldest first. */
function setFirings(state: RuleState, firings: readonly Fired[]): void {
  state.cooldowns.clear()
  addFirings(state, firings)
}

/** Adds stored firings that are newer than those before. */
function addFirings({ cooldowns, memory }: RuleState, firings: readonly Fired[]): void {
  cooldowns.restore(firings)
  memory.settle('')
}

/** Replaces the spent budgets of a rebuilt state by the stored firings of the minute in which the rule fired last. */
function setSpent(
  state: RuleState,
  stored: { lastFiredAt: number; firings: readonly SpentFirings[] } | undefined,
): void {
  state.budget = new FiringBudget()
  if (stored === undefined) return
  // A clock that was set back must not renew a spent budget.
  state.time = Math.max(state.time, stored.lastFiredAt)
  state.budget.restore(startOf(stored.lastFiredAt, minuteMs), stored.firings)
}

/** Creates a state, and restores parts of it from stored firings. */
export const ruleStates = { start, setFirings, addFirings, setSpent }
