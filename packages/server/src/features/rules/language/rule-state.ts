import { eventTypes, ruleLimits } from '@wardline/contract'
import {
  advance,
  type Bounds,
  type CorrelationState,
  keyOf,
  type Mark,
  mayFire,
  newState,
  type Surroundings,
  type ValueHistory,
} from './correlation.ts'
import type { RuleEvent } from './fields.ts'
import type { CompiledRule } from './rule.ts'
import type { Predicate } from './selection.ts'

/** What a rule knows of the events before: all of it follows from them. */
export interface RuleState {
  /** The highest time of any event that counted, in milliseconds. */
  time: number
  root: CorrelationState
  /** Groups that were dropped because there were too many, since the state was made. */
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
  /** What was counted: events, values or rules. */
  count: number
}

/** A firing names events for people to look at; its count has the rest. */
const firingEvents = 100

/** What rules make themselves: a rule that saw it would fire for ever. */
const rulesOwnTypes: ReadonlySet<string> = new Set([eventTypes.ruleMatched, eventTypes.ruleStateEvicted])

const start = (rule: CompiledRule): RuleState => ({
  time: Number.NEGATIVE_INFINITY,
  root: newState(rule.correlation),
  evicted: 0,
})

/** Marks and values that each correlation of a rule may keep. */
const boundsOf = ({ correlations }: CompiledRule, all: Bounds): Bounds =>
  correlations === 1
    ? all
    : {
        groups: Math.max(1, Math.floor(all.groups / correlations)),
        entries: Math.max(1, Math.floor(all.entries / correlations)),
      }

let last: { row: RuleEvent['row']; at: number } | undefined

/** Parsed once for an event, however many rules look at it. */
function timeOf(row: RuleEvent['row']): number {
  if (last?.row !== row) last = { row, at: Date.parse(row.created_at) }
  return last.at
}

export const ruleBounds: Bounds = { groups: ruleLimits.groups, entries: ruleLimits.groupEntries }

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
): Firing[] {
  const { correlation, cooldown, types } = rule
  const { row } = event
  if (types !== undefined && !types.has(row.event_type)) return []
  if (row.by_service && rulesOwnTypes.has(row.event_type)) return []
  // An operator tests a decoy: a rule that enforces must not stop agents for it.
  if (row.by_service && row.event_type === eventTypes.honeypotTriggered && row.metadata?.test === true) return []
  const matched = matchedOf(rule.predicates, event)
  if (matched.length === 0) return []
  const at = timeOf(row)
  if (rule.isExcepted(event, at)) return []
  state.time = Math.max(state.time, at)
  // A rule without correlation and cooldown has nothing to remember.
  if (correlation.timespan === 0 && cooldown === 0) {
    return [{ group: keyOf(correlation.groupBy, event)!, time: state.time, seq: row.seq, events: [row.seq], count: 1 }]
  }
  const around: Surroundings = {
    time: state.time,
    seq: row.seq,
    cooldown,
    history,
    bounds: boundsOf(rule, bounds),
    evict() {
      state.evicted += 1
    },
  }
  const hit = advance(correlation, state.root, event, (predicate) => matched.includes(predicate), around)
  if (hit === undefined || !mayFire(correlation, state.root, hit.group, around)) return []
  const { group, seqs, count } = hit
  return [{ group, time: state.time, seq: row.seq, events: seqs.slice(-firingEvents), count }]
}

const none: readonly Predicate[] = []

/** Most events match nothing: no list is made for them. */
function matchedOf(predicates: readonly Predicate[], event: RuleEvent): readonly Predicate[] {
  let matched: Predicate[] | undefined
  for (const predicate of predicates) {
    if (!predicate.matches(event)) continue
    matched ??= []
    matched.push(predicate)
  }
  return matched ?? none
}

/** How far back events must be read to rebuild a state, in milliseconds. What cooldowns need, setFirings adds. */
export function lookbackOf({ correlation }: Pick<CompiledRule, 'correlation'>): number {
  const inner = correlation.steps.map((each) => ('correlation' in each ? lookbackOf(each) : 0))
  return correlation.timespan + Math.max(0, ...inner)
}

/** Replaces what a rebuilt state believes of earlier firings by those that were stored. */
function setFirings(state: RuleState, firings: readonly Pick<Firing, 'group' | 'time'>[]): void {
  for (const group of state.root.groups.values()) delete group.firedAt
  for (const { group, time } of firings) {
    const known = state.root.groups.get(group) ?? { touched: time }
    known.touched = Math.max(known.touched, time)
    known.firedAt = Math.max(known.firedAt ?? time, time)
    state.root.groups.set(group, known)
  }
  // The oldest go first.
  const byAge = [...state.root.groups].sort(([, a], [, b]) => a.touched - b.touched)
  state.root.groups = new Map(byAge)
}

interface SavedGroup
  extends Omit<CorrelationState['groups'] extends Map<string, infer Group> ? Group : never, 'values'> {
  values?: [string, Mark][]
}
interface SavedCorrelation {
  groups: [string, SavedGroup][]
  entries: number
  inner: (SavedCorrelation | null)[]
}
/** A state as JSON can hold it. */
interface SavedState {
  time: number | null
  root: SavedCorrelation
  evicted: number
}

const saveCorrelation = ({ groups, entries, inner }: CorrelationState): SavedCorrelation => ({
  groups: [...groups].map(([key, { values, ...group }]) => [key, { ...group, ...(values && { values: [...values] }) }]),
  entries,
  inner: inner.map((each) => each && saveCorrelation(each)),
})
const restoreCorrelation = ({ groups, entries, inner }: SavedCorrelation): CorrelationState => ({
  groups: new Map(
    groups.map(([key, { values, ...group }]) => [key, { ...group, ...(values && { values: new Map(values) }) }]),
  ),
  entries,
  inner: inner.map((each) => each && restoreCorrelation(each)),
})

const save = ({ time, root, evicted }: RuleState): SavedState =>
  structuredClone({ time: Number.isFinite(time) ? time : null, root: saveCorrelation(root), evicted })

/** For the same version of the rule alone: another one has other correlations. */
const restore = ({ time, root, evicted }: SavedState): RuleState => ({
  time: time ?? Number.NEGATIVE_INFINITY,
  root: restoreCorrelation(structuredClone(root)),
  evicted,
})

/** How a state begins, is stored and comes back. */
export const ruleStates = { start, save, restore, setFirings }
