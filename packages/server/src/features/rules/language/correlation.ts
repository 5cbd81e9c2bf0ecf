import { type RuleCorrelation, ruleLimits } from '@wardline/contract'
import { addAwaited, isUnpreceded } from './absence.ts'
import { ByUse } from './by-use.ts'
import type { RuleEvent } from './fields.ts'
import { Figures, type FigureType } from './figures.ts'
import { type GroupKey, instanceOf } from './group-keys.ts'
import { type Group, Groups } from './groups.ts'
import { type Mark, Marks } from './marks.ts'
import type { MemoryLimit } from './memory-limit.ts'
import type { Predicate } from './predicate.ts'

/** A correlation, checked and compiled. Times in milliseconds. */
export interface Correlation {
  type: RuleCorrelation['type']
  steps: Step[]
  /** Returns undefined if the event belongs to no group. */
  group(event: RuleEvent): GroupKey | undefined
  /** With aliases: the group of an event as one of each step. */
  groupOfStep: readonly ((event: RuleEvent) => GroupKey | undefined)[] | undefined
  timespan: number
  /** For value_count and new_value: returns the values of their fields in the event. */
  values: ((event: RuleEvent) => readonly string[]) | undefined
  /** For value_sum, value_avg and value_percentile: what is compared, and how. */
  figure: FigureTest | undefined
  /** Counts from `min` to `max` fire the rule, except `not`. */
  min: number
  max: number
  not: number | undefined
  /** Whether each event is judged once its timespan has passed, by the count of the events since. */
  isLate: boolean
  /** For new_value: minimum age of a group. */
  learning: number
  /** For new_value: key of a group in the history of the rule, which several correlations may share. */
  historyKey: ((event: RuleEvent) => string) | undefined
  /** For new_value: whether a group has the values of one instance only. */
  isOfInstance: boolean
}

export interface FigureTest {
  type: FigureType
  /** Of value_percentile, from 0 to 1. */
  share: number
  read(event: RuleEvent): number | undefined
  isMet(figure: number): boolean
}

export type Step = { predicate: Predicate } | { correlation: Correlation }

/** Limits of a rule: instances whose firings of a minute it counts, and firings of each. */
export interface Bounds {
  instances: number
  firings: number
}

/** State of a correlation and of nested ones. */
export interface CorrelationState {
  groups: Groups
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
interface Surroundings {
  /** Effective time: the highest time of all events so far, so that a clock set back does not reopen a window. */
  time: number
  seq: number
  history: ValueHistory
  /** Time of the first event that the rule has seen: before it, nothing is known. */
  since: number
}

interface Hit {
  /** Values of group-by as a JSON list. */
  group: string
  /** Number of events, values or steps. */
  count: number
  /** Whether all contributing events are of one instance, so that no other agent had a share in it. */
  ofOneInstance: boolean
  /** Returns the contributing events, oldest first. Called only if the rule fires, because a window may have thousands. */
  seqs(): number[]
}

export const newState = ({ steps }: Correlation, memory: MemoryLimit): CorrelationState => ({
  groups: new Groups(memory),
  inner: steps.map((step) => ('correlation' in step ? newState(step.correlation, memory) : null)),
})

/** Number of events that the condition distinguishes: above `max` only that there are more matters. */
const capOf = ({ min, max, not = 0 }: Correlation): number => Math.max(1, Number.isFinite(max) ? max + 1 : min, not + 1)

/** Whether a count fires. */
export const isMet = ({ min, max, not }: Correlation, count: number): boolean =>
  count >= min && count <= max && count !== not

function countEvents(correlation: Correlation, group: Group, { time, seq }: Surroundings): number {
  if (group.marks) group.marks.add(time, seq)
  else group.marks = new Marks(time, seq)
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
      known.time = time
      known.seq = seq
      values.use(known)
    } else values.add({ key, time, seq, older: undefined, newer: undefined })
  }
  const from = time - correlation.timespan
  const cap = capOf(correlation)
  while (values.oldest!.time < from || values.size > cap) values.delete(values.oldest!)
  return values.size
}

/** Returns the number of figures in the window if they meet the condition, else 0. */
function countFigures(
  { figure, timespan }: Correlation,
  group: Group,
  value: number,
  { time, seq }: Surroundings,
): number {
  const { type, share, isMet } = figure!
  group.figures ??= new Figures(type)
  const { figures } = group
  figures.add(time, seq, value)
  figures.drop(time - timespan)
  return isMet(figures.of(type, share)) ? figures.marks.length : 0
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
    if (isOpen) chains[index] = before.concat([[time, seq]])
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
  const reporter = instanceOf(event)
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
    const hits = advance(step.correlation, inner[index]!, event, matched, around)
    if (hits.some((hit) => !hit.ofOneInstance)) ofOneInstance = false
    return hits.length > 0
  })
  return found.includes(true) ? { steps: found, ofOneInstance } : undefined
}

function oldestSeq({ type, timespan }: Correlation, group: Group, time: number): number {
  switch (type) {
    case 'event_count':
      return group.marks!.oldestSeq!
    case 'value_count':
      return group.values!.oldest!.seq
    case 'value_sum':
    case 'value_avg':
    case 'value_percentile':
      return group.figures!.oldestSeq!
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
      return [...group.values!].map(({ time, seq }): Mark => [time, seq])
    case 'value_sum':
    case 'value_avg':
    case 'value_percentile':
      return group.figures!.marks
    case 'temporal':
      return stepsSince(group, time - timespan)
    default:
      return group.chains!.at(-1)!
  }
}

const noHits: readonly Hit[] = []

/**
 * Processes an event in a correlation and nested ones. `matched`: the predicates that match it. Must be called once per
 * event of the log, in order of seq. With aliases, an event may belong to several groups.
 */
export function advance(
  correlation: Correlation,
  state: CorrelationState,
  event: RuleEvent,
  matched: readonly Predicate[],
  around: Surroundings,
): readonly Hit[] {
  const found = matchedSteps(correlation, state, event, matched, around)
  if (!found) return noHits
  const { groupOfStep } = correlation
  if (!groupOfStep) {
    const key = correlation.group(event)
    const hit = key && advanceGroup(correlation, state, event, key, found, around)
    return hit ? [hit] : noHits
  }
  const keys = groupOfStep.map((group, index) => (found.steps[index] ? group(event) : undefined))
  return keys.flatMap((key, index) => {
    if (key === undefined || keys.findIndex((other) => other?.key === key.key) < index) return []
    const steps = keys.map((other) => other?.key === key.key)
    return advanceGroup(correlation, state, event, key, { ...found, steps }, around) ?? []
  })
}

function advanceGroup(
  correlation: Correlation,
  state: CorrelationState,
  event: RuleEvent,
  key: GroupKey,
  { steps, ofOneInstance }: MatchedSteps,
  around: Surroundings,
): Hit | undefined {
  const values = correlation.values?.(event)
  if (values?.length === 0) return undefined
  const figure = correlation.figure?.read(event)
  if (correlation.figure && figure === undefined) return undefined
  const { type, timespan } = correlation
  const { time } = around
  if (type === 'new_value') {
    if (!isNewTo(correlation, event, values!, around)) return undefined
    // Whether a value is new depends on what other instances of the group showed.
    const isOwn = ofOneInstance && correlation.isOfInstance
    return { group: key.text, count: 1, ofOneInstance: isOwn, seqs: () => [around.seq] }
  }
  const instance = instanceOf(event)
  if (type === 'not_preceded') {
    if (!isUnpreceded(state.groups, key.key, { steps, instance, timespan, ...around })) return undefined
    return { group: key.text, count: 1, ofOneInstance, seqs: () => [around.seq] }
  }
  const group = state.groups.enter(key.key, instance, { time, since: time - timespan })
  if (!ofOneInstance || instance !== group.instance) {
    group.instance = ofOneInstance ? instance : undefined
    group.instanceSince = around.seq
  }
  let count: number
  switch (type) {
    case 'event_count':
      if (correlation.isLate) {
        group.text = key.text
        addAwaited(state.groups, group, { time, event: event.row }, correlation.max)
        return undefined
      }
      count = countEvents(correlation, group, around)
      break
    case 'value_count':
      count = countValues(correlation, group, values!, around)
      break
    case 'value_sum':
    case 'value_avg':
    case 'value_percentile':
      count = countFigures(correlation, group, figure!, around)
      break
    case 'temporal':
      count = findTogether(correlation, group, steps, around)
      break
    case 'temporal_ordered':
      count = findInOrder(correlation, group, steps, around)
  }
  state.groups.changed(group)
  if (!isMet(correlation, count)) return undefined
  const seqs = () => marksOf(correlation, group, time).map(([, seq]) => seq)
  return {
    group: key.text,
    count,
    ofOneInstance: ofOneInstance && oldestSeq(correlation, group, time) >= group.instanceSince,
    seqs: () => [...new Set(seqs())].sort((a, b) => a - b),
  }
}
