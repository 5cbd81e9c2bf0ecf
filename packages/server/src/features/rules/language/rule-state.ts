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

/** What a rule knows of the events before: all of it follows from them. */
export interface RuleState {
  /** The highest time of any event that counted, in milliseconds. */
  time: number
  root: CorrelationState
  budget: FiringBudget
  /** Groups and budgets that were dropped because there were too many, since the state was made. */
  evicted: number
}

/** A rule that matched. The same events always make the same firings, so rule, group and seq tell them apart. */
export interface Firing {
  /** Values of group-by as a JSON list. */
  group: string
  /** Effective time of the event that completed it. */
  time: number
  seq: number
  /** Events that made it, oldest first: the newest 100. */
  events: number[]
  /** Count of events, values or rules. */
  count: number
}

/** A firing names events for people to look at; its count has the rest. */
const firingEvents = 100

/** What rules make themselves: a rule that saw it would fire for ever. */
const rulesOwnTypes: ReadonlySet<string> = new Set([eventTypes.ruleMatched, eventTypes.ruleStateEvicted])

const start = (rule: CompiledRule): RuleState => ({
  time: Number.NEGATIVE_INFINITY,
  root: newState(rule.correlation),
  budget: new FiringBudget(),
  evicted: 0,
})

/** Marks and values that each correlation of a rule may keep. */
const boundsOf = ({ correlations }: CompiledRule, all: Bounds): Bounds =>
  correlations === 1
    ? all
    : {
        ...all,
        groups: Math.max(1, Math.floor(all.groups / correlations)),
        entries: Math.max(1, Math.floor(all.entries / correlations)),
      }

const timeOf = askedOnce('time', ({ row }: RuleEvent) => Date.parse(row.created_at))

/** Events that no rule looks at. */
function isPassedOver({ row }: RuleEvent): boolean {
  if (!row.by_service) return false
  // An operator tests a decoy: a rule that enforces must not stop agents for it.
  const isTest = row.event_type === eventTypes.honeypotTriggered && row.metadata?.test === true
  return isTest || rulesOwnTypes.has(row.event_type)
}

export const ruleBounds: Bounds = {
  groups: ruleLimits.groups,
  entries: ruleLimits.groupEntries,
  firings: ruleLimits.minuteFirings,
}

/**
 * Takes one event through a rule and changes its state. Every event of the log comes once, in order of seq; live evaluation,
 * restart and backtest all call this. Time is that of the events.
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

/** The same for an event of which is known what it matches. */
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
  // A rule without correlation and cooldown remembers nothing but its budget.
  if (correlation.timespan === 0 && cooldown === 0) {
    if (!state.budget.take(event.row, { time, bounds, counter: state })) return noFiring
    return [{ group: correlation.group(event)!, time, seq, events: [seq], count: 1 }]
  }
  const around: Surroundings = { time, seq, cooldown, history, bounds: boundsOf(rule, bounds), counter: state }
  const hit = advance(correlation, state.root, event, matched, around)
  if (hit === undefined) return noFiring
  const spend = () => state.budget.take(event.row, { time, bounds, counter: state })
  if (!mayFire(correlation, state.root, hit.group, around, spend)) return noFiring
  return [{ group: hit.group, time, seq, events: hit.seqs().slice(-firingEvents), count: hit.count }]
}

const noFiring: readonly Firing[] = []

/** How far back events must be read to rebuild a state, in milliseconds. What cooldowns need, setFirings adds. */
export function lookbackOf({ correlation }: Pick<CompiledRule, 'correlation'>): number {
  const inner = correlation.steps.map((each) => ('correlation' in each ? lookbackOf(each) : 0))
  return correlation.timespan + Math.max(0, ...inner)
}

/** Replaces what a rebuilt state believes of earlier firings by those that were stored. */
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
  // The oldest go first.
  for (const group of [...groups.values()].sort((a, b) => a.touched - b.touched)) state.root.groups.add(group)
}

/** Replaces what a rebuilt state believes is spent by the stored firings of the minute in which the rule fired last. */
function setSpent(
  state: RuleState,
  stored: { lastFiredAt: number; firings: readonly SpentFirings[] } | undefined,
): void {
  state.budget = new FiringBudget()
  if (stored === undefined) return
  // A clock that went back must not give a budget again.
  state.time = Math.max(state.time, stored.lastFiredAt)
  state.budget.restore(startOf(stored.lastFiredAt, minuteMs), stored.firings)
}

/** How a state begins, and what it takes over from stored firings. */
export const ruleStates = { start, setFirings, setSpent }
