import { type RuleCorrelation, ruleLimits } from '@wardline/contract'
import { ByUse, type Keyed } from './by-use.ts'
import type { RuleEvent } from './fields.ts'
import { type Mark, Marks } from './marks.ts'
import type { Predicate } from './selection.ts'

/** A correlation, checked and compiled. Times in milliseconds. */
export interface Correlation {
  type: RuleCorrelation['type']
  steps: Step[]
  /** Returns undefined if the event belongs to no group. */
  group(event: RuleEvent): string | undefined
  timespan: number
  /** For value_count and new_value: returns the values of their fields in the event. */
  values: ((event: RuleEvent) => readonly string[]) | undefined
  /** Counts from `min` to `max` fire the rule. */
  min: number
  max: number
  /** For new_value: minimum age of a group. */
  learning: number
  /** For new_value: key of a group in the history of the rule, which several correlations may share. */
  historyKey: ((event: RuleEvent) => string) | undefined
}

export type Step = { predicate: Predicate } | { correlation: Correlation }

/** Limits of a correlation: groups, and marks or values in all of them; firings per instance and minute. */
export interface Bounds {
  groups: number
  entries: number
  firings: number
}

/** A value of a group, with the last event that had it. */
interface SeenValue extends Keyed<SeenValue> {
  mark: Mark
}

/** A group of a correlation. Contains only the fields that its type needs. */
interface Group extends Keyed<Group> {
  /** event_count: the newest, as many as the condition distinguishes. value_count: by value, oldest first. */
  marks: Marks | undefined
  values: ByUse<SeenValue> | undefined
  /** temporal: the newest event of each step. */
  steps: (Mark | null)[] | undefined
  /** temporal_ordered: for each number of steps, the sequence that began last. */
  chains: (Mark[] | null)[] | undefined
  /** Instance of its newest events, and seq of the first of them in a row; undefined: events of several counted as one. */
  instance: string | null | undefined
  instanceSince: number
  /** When the group last fired. */
  firedAt: number | undefined
  /** Effective time of the group's last event. */
  touched: number
}

/** State of a correlation and of nested ones. */
export interface CorrelationState {
  groups: ByUse<Group>
  /** Number of marks and values in all groups. */
  entries: number
  inner: (CorrelationState | null)[]
}

/** How a value was shown. */
export interface Noted {
  /** Instance of the event, '' = none. */
  reporter: string
  time: number
  /** Seq of the event if the value was new at it. */
  newSeq?: number | undefined
}

/** Earlier values of groups, for new_value. In the service they are stored in the database, with the firings. */
export interface ValueHistory {
  look(group: string, value: string): { groupSince?: number | undefined; valueSeen?: number | undefined }
  note(group: string, value: string, noted: Noted): void
}

/** Inputs of a step besides its own state. */
export interface Surroundings {
  /** Effective time: the highest time of all events so far, so that a clock set back does not reopen a window. */
  time: number
  seq: number
  cooldown: number
  history: ValueHistory
  bounds: Bounds
  /** Counts groups dropped because of the limit. */
  counter: { evicted: number }
}

interface Hit {
  group: string
  /** Number of events, values or steps. */
  count: number
  /** Whether all contributing events are of one instance, so that no other agent had a share in it. */
  ofOneInstance: boolean
  /** Returns the contributing events, oldest first. Called only if the rule fires, because a window may have thousands. */
  seqs(): number[]
}

export const newState = ({ steps }: Correlation): CorrelationState => ({
  groups: new ByUse(),
  entries: 0,
  inner: steps.map((step) => ('correlation' in step ? newState(step.correlation) : null)),
})

export const newGroup = (key: string, touched: number): Group => ({
  key,
  touched,
  older: undefined,
  newer: undefined,
  marks: undefined,
  values: undefined,
  steps: undefined,
  chains: undefined,
  instance: undefined,
  instanceSince: 0,
  firedAt: undefined,
})

function sizeOf({ marks, values, steps, chains }: Group): number {
  if (marks) return marks.length
  if (values) return values.size
  if (steps) return steps.length
  return chains ? chains.reduce((sum, chain) => sum + (chain?.length ?? 0), 0) : 0
}

function drop(state: CorrelationState, group: Group): void {
  state.groups.delete(group)
  state.entries -= sizeOf(group)
}

/** Returns the group of this key as the most recently used, and removes groups whose window has passed. */
function enter({ timespan }: Correlation, state: CorrelationState, key: string, around: Surroundings): Group {
  const { groups } = state
  const since = around.time - Math.max(timespan, around.cooldown)
  for (let { oldest } = groups; oldest && oldest.touched < since; { oldest } = groups) drop(state, oldest)
  const known = groups.get(key)
  if (known) {
    known.touched = around.time
    groups.use(known)
    return known
  }
  const group = newGroup(key, around.time)
  groups.add(group)
  return group
}

/** Enforces the limits after a group grew. */
function settle(state: CorrelationState, grown: number, { bounds, counter }: Surroundings): void {
  const { groups } = state
  state.entries += grown
  while ((groups.size > bounds.groups || state.entries > bounds.entries) && groups.size > 1) {
    drop(state, groups.oldest!)
    counter.evicted += 1
  }
}

/** Number of events that the condition distinguishes: above `max` only that there are more matters. */
const capOf = ({ min, max }: Correlation): number => Math.max(1, Number.isFinite(max) ? max + 1 : min)

function countEvents(correlation: Correlation, group: Group, { time, seq }: Surroundings): number {
  if (group.marks) group.marks.add(time, seq)
  else group.marks = new Marks([[time, seq]])
  group.marks.drop(time - correlation.timespan, capOf(correlation))
  return group.marks.length
}

function countValues(
  correlation: Correlation,
  group: Group,
  shown: readonly string[],
  { time, seq }: Surroundings,
): number {
  group.values ??= new ByUse()
  const { values } = group
  for (const key of shown) {
    const known = values.get(key)
    if (known) {
      known.mark = [time, seq]
      values.use(known)
    } else values.add({ key, mark: [time, seq], older: undefined, newer: undefined })
  }
  const from = time - correlation.timespan
  const cap = capOf(correlation)
  while (values.oldest!.mark[0] < from || values.size > cap) values.delete(values.oldest!)
  return values.size
}

const stepsSince = ({ steps }: Group, from: number): Mark[] =>
  steps!.filter((mark): mark is Mark => mark !== null && mark[0] >= from)

function findTogether(
  { steps, timespan }: Correlation,
  group: Group,
  matched: readonly boolean[],
  { time, seq }: Surroundings,
): number {
  group.steps ??= steps.map(() => null)
  const known = group.steps
  for (const [index, isMatched] of matched.entries()) if (isMatched) known[index] = [time, seq]
  return stepsSince(group, time - timespan).length
}

/**
 * For each number of first steps, keeps the sequence that began last: if it does not end within the timespan, no other one
 * does. Runs from the last step to the first, so that an event counts as only one step.
 */
function findInOrder(
  { steps, timespan }: Correlation,
  group: Group,
  matched: readonly boolean[],
  { time, seq }: Surroundings,
): number {
  group.chains ??= steps.map(() => null)
  const { chains } = group
  for (let index = steps.length - 1; index >= 0; index -= 1) {
    if (!matched[index]) continue
    const before = index === 0 ? [] : chains[index - 1]!
    const isOpen = before !== null && (before.length === 0 || before[0]![0] >= time - timespan)
    if (isOpen) chains[index] = [...before, [time, seq]]
  }
  const whole = chains.at(-1)
  const isNow = matched.at(-1) === true && whole?.at(-1)?.[1] === seq
  return isNow ? whole!.length : 0
}

/** Before every time, and finite, so that differences are numbers. */
const neverSeen = -Number.MAX_SAFE_INTEGER

function isNewTo(
  correlation: Correlation,
  event: RuleEvent,
  values: readonly string[],
  { time, seq, history }: Surroundings,
): boolean {
  const { timespan, learning } = correlation
  const key = correlation.historyKey!(event)
  // Judge all values of the event before storing one, because the first value would make the group known.
  const judged = values.map((value) => {
    const { groupSince, valueSeen = neverSeen } = history.look(key, value)
    const isKnownGroup = groupSince !== undefined && groupSince <= time - learning
    return { value, valueSeen, isNew: isKnownGroup && valueSeen < time - timespan }
  })
  const isNew = judged.some((each) => each.isNew)
  const reporter = event.row.instance_id ?? ''
  // Of a long list, repeated events store all values: those seen longest ago first.
  if (judged.length > ruleLimits.eventValues) judged.sort((a, b) => a.valueSeen - b.valueSeen)
  for (const each of judged.slice(0, ruleLimits.eventValues)) {
    history.note(key, each.value, { reporter, time, newSeq: each.isNew ? seq : undefined })
  }
  return isNew
}

interface MatchedSteps {
  steps: readonly boolean[]
  /** False if one is a correlation to which several instances contributed. */
  ofOneInstance: boolean
}

const onlyStep: MatchedSteps = { steps: [true], ofOneInstance: true }

/** Returns the steps that the event matches; undefined if none. Also passes the event to steps that are correlations. */
function matchedSteps(
  { steps }: Correlation,
  { inner }: CorrelationState,
  event: RuleEvent,
  matched: readonly Predicate[],
  around: Surroundings,
): MatchedSteps | undefined {
  const [only] = steps
  // Most correlations have a single condition.
  if (steps.length === 1 && 'predicate' in only!) return matched.includes(only.predicate) ? onlyStep : undefined
  let ofOneInstance = true
  const found = steps.map((step, index) => {
    if ('predicate' in step) return matched.includes(step.predicate)
    const hit = advance(step.correlation, inner[index]!, event, matched, { ...around, cooldown: 0 })
    if (hit?.ofOneInstance === false) ofOneInstance = false
    return hit !== undefined
  })
  return found.includes(true) ? { steps: found, ofOneInstance } : undefined
}

function oldestSeq({ type, timespan }: Correlation, group: Group, time: number): number {
  switch (type) {
    case 'event_count':
      return group.marks!.oldestSeq!
    case 'value_count':
      return group.values!.oldest!.mark[1]
    case 'temporal':
      return Math.min(...stepsSince(group, time - timespan).map(([, seq]) => seq))
    default:
      return group.chains!.at(-1)![0]![1]
  }
}

const marksOf = ({ type, timespan }: Correlation, group: Group, time: number): readonly Mark[] => {
  switch (type) {
    case 'event_count':
      return [...group.marks!]
    case 'value_count':
      return [...group.values!].map(({ mark }) => mark)
    case 'temporal':
      return stepsSince(group, time - timespan)
    default:
      return group.chains!.at(-1)!
  }
}

/**
 * Processes an event in a correlation and nested ones. `matched`: the predicates that match it. Must be called once per
 * event of the log, in order of seq.
 */
export function advance(
  correlation: Correlation,
  state: CorrelationState,
  event: RuleEvent,
  matched: readonly Predicate[],
  around: Surroundings,
): Hit | undefined {
  const found = matchedSteps(correlation, state, event, matched, around)
  if (!found) return undefined
  const { steps, ofOneInstance } = found
  const key = correlation.group(event)
  if (key === undefined) return undefined
  const values = correlation.values?.(event)
  if (values?.length === 0) return undefined
  const { type, min, max } = correlation
  if (type === 'new_value') {
    if (!isNewTo(correlation, event, values!, around)) return undefined
    return { group: key, count: 1, ofOneInstance, seqs: () => [around.seq] }
  }
  const group = enter(correlation, state, key, around)
  const instance = ofOneInstance ? event.row.instance_id : undefined
  if (instance !== group.instance || instance === undefined) {
    group.instance = instance
    group.instanceSince = around.seq
  }
  const before = sizeOf(group)
  let count: number
  switch (type) {
    case 'event_count':
      count = countEvents(correlation, group, around)
      break
    case 'value_count':
      count = countValues(correlation, group, values!, around)
      break
    case 'temporal':
      count = findTogether(correlation, group, steps, around)
      break
    case 'temporal_ordered':
      count = findInOrder(correlation, group, steps, around)
  }
  settle(state, sizeOf(group) - before, around)
  if (count < min || count > max) return undefined
  const seqs = () => marksOf(correlation, group, around.time).map(([, seq]) => seq)
  return {
    group: key,
    count,
    ofOneInstance: ofOneInstance && oldestSeq(correlation, group, around.time) >= group.instanceSince,
    seqs: () => [...new Set(seqs())].sort((a, b) => a - b),
  }
}

/**
 * Whether the group may fire now: false during its cooldown, and if the budget is spent. Records the firing. A suppressed
 * firing starts no cooldown, because it is not stored.
 */
export function mayFire(
  correlation: Correlation,
  state: CorrelationState,
  key: string,
  around: Surroundings,
  spend: () => boolean,
): boolean {
  const { time, cooldown } = around
  if (cooldown === 0) return spend()
  const group = enter(correlation, state, key, around)
  settle(state, 0, around)
  if (group.firedAt !== undefined && time - group.firedAt < cooldown) return false
  if (!spend()) return false
  group.firedAt = time
  return true
}
