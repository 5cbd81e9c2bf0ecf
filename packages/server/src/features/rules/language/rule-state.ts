import { eventTypes, ruleLimits } from '@wardline/contract'
import { minuteMs, startOf } from '../../../clock.ts'
import { askedOnce } from './asked-once.ts'
import { ByUse } from './by-use.ts'
import {
  advance,
  type Bounds,
  type CorrelationState,
  mayFire,
  newGroup,
  newState,
  type Surroundings,
  type ValueHistory,
} from './correlation.ts'
import type { RuleEvent } from './fields.ts'
import { FiringBudget, type SpentFirings } from './firing-budget.ts'
import type { CompiledRule } from './rule.ts'
import type { Predicate } from './selection.ts'

/** The state of a rule, which depends only on the events so far. */
export interface RuleState {
  /** Highest time of the matched events, in epoch milliseconds. */
  time: number
  root: CorrelationState
  budget: FiringBudget
  /** Groups and budgets dropped at their limits since the state was created. */
  evicted: number
}

/** A match of a rule. The same events always cause the same firings, so rule, group and seq identify one. */
export interface Firing {
  /** Values of group-by as a JSON list. */
  group: string
  /** Effective time of the event that completed it. */
  time: number
  seq: number
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

const start = (rule: CompiledRule): RuleState => ({
  time: Number.NEGATIVE_INFINITY,
  root: newState(rule.correlation),
  budget: new FiringBudget(),
  evicted: 0,
})

/** Divides the limits of a rule among its correlations. */
const boundsOf = ({ correlations }: CompiledRule, all: Bounds): Bounds =>
  correlations === 1
    ? all
    : {
        ...all,
        groups: Math.max(1, Math.floor(all.groups / correlations)),
        entries: Math.max(1, Math.floor(all.entries / correlations)),
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
  groups: ruleLimits.groups,
  entries: ruleLimits.groupEntries,
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
): readonly Firing[] {
  const matched = rule.predicates.filter(({ matches }) => matches(event))
  return stepMatched(rule, state, event, matched, history, bounds)
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
  // The only state of a rule without correlation and cooldown is its budget.
  if (correlation.timespan === 0 && cooldown === 0) {
    if (!state.budget.take(event.row, { time, bounds, counter: state })) return noFiring
    return [{ group: correlation.group(event)!, time, seq, events: [seq], count: 1, ofOneInstance: true }]
  }
  const around: Surroundings = { time, seq, cooldown, history, bounds: boundsOf(rule, bounds), counter: state }
  const hit = advance(correlation, state.root, event, matched, around)
  if (hit === undefined) return noFiring
  const spend = () => state.budget.take(event.row, { time, bounds, counter: state })
  if (!mayFire(correlation, state.root, hit.group, around, spend)) return noFiring
  const { group, count, ofOneInstance } = hit
  return [{ group, time, seq, events: hit.seqs().slice(-firingEvents), count, ofOneInstance }]
}

const noFiring: readonly Firing[] = []

/**
 * Returns how far back events must be read to rebuild a state, in milliseconds. Cooldowns are restored by setFirings.
 */
export function lookbackOf({ correlation }: Pick<CompiledRule, 'correlation'>): number {
  const inner = correlation.steps.map((each) => ('correlation' in each ? lookbackOf(each) : 0))
  return correlation.timespan + Math.max(0, ...inner)
}

/** Replaces the earlier firings of a rebuilt state by the stored ones. */
function setFirings(state: RuleState, firings: readonly Pick<Firing, 'group' | 'time'>[]): void {
  const groups = new Map([...state.root.groups].map((group) => [group.key, group]))
  for (const group of groups.values()) group.firedAt = undefined
  for (const { group: key, time } of firings) {
    const group = groups.get(key) ?? newGroup(key, time)
    group.touched = Math.max(group.touched, time)
    group.firedAt = Math.max(group.firedAt ?? time, time)
    groups.set(key, group)
  }
  state.root.groups = new ByUse()
  // Added oldest first, which is the order of use.
  for (const group of [...groups.values()].sort((a, b) => a.touched - b.touched)) state.root.groups.add(group)
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
export const ruleStates = { start, setFirings, setSpent }
