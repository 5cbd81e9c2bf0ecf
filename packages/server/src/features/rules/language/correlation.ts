import { createHash } from 'node:crypto'
import type { RuleCorrelation } from '@wardline/contract'
import type { Field, RuleEvent } from './fields.ts'
import type { Predicate } from './selection.ts'

/** A correlation, checked and compiled. Times in milliseconds. */
export interface Correlation {
  type: RuleCorrelation['type']
  steps: Step[]
  groupBy: Field[]
  timespan: number
  /** Field or fields of value_count and new_value. */
  values: Field[]
  /** Counts from `min` to `max` fire. */
  min: number
  max: number
  /** new_value: how old a group must be. */
  learning: number
  /** Of this rule alone: tells histories of several correlations apart. */
  name: string
}

export type Step = { predicate: Predicate } | { correlation: Correlation }

/** Groups that a correlation may keep, and marks or values in all of them. */
export interface Bounds {
  groups: number
  entries: number
}

/** An event that counts: its effective time and its place in the log. */
export type Mark = [time: number, seq: number]

/** One group of one correlation. Only the part that the type needs is there. */
interface Group {
  /** event_count: the newest, as many as the condition distinguishes. value_count: by value, oldest first. */
  marks?: Mark[]
  values?: Map<string, Mark>
  /** temporal: the newest event of each step. */
  steps?: (Mark | null)[]
  /** temporal_ordered: of each number of steps, the sequence that began last. */
  chains?: (Mark[] | null)[]
  /** When the group last fired. */
  firedAt?: number
  /** Effective time of its last event. */
  touched: number
}

/** State of a correlation and of those within it; plain but for maps, see rule-state.ts. */
export interface CorrelationState {
  /** Least recently used first. */
  groups: Map<string, Group>
  /** Marks and values in all groups. */
  entries: number
  inner: (CorrelationState | null)[]
}

/**
 * What groups showed before, for new_value. In the service it comes from the database: read for the groups of a batch
 * before its events are stepped through, written with its firings.
 */
export interface ValueHistory {
  look(group: string, value: string): { groupSince?: number | undefined; valueSeen?: number | undefined }
  /** `isNew`: whether the value was judged to be new at this event. */
  note(group: string, value: string, time: number, isNew: boolean): void
}

/** What a step needs besides its own state. */
export interface Surroundings {
  /** Effective time: the highest time of any event so far, so that a clock that went back opens no window again. */
  time: number
  seq: number
  cooldown: number
  history: ValueHistory
  bounds: Bounds
  evict(): void
}

interface Hit {
  group: string
  /** The events that made it, oldest first. */
  seqs: number[]
  /** What was counted: events, values or steps. */
  count: number
}

export const newState = ({ steps }: Correlation): CorrelationState => ({
  groups: new Map(),
  entries: 0,
  inner: steps.map((step) => ('correlation' in step ? newState(step.correlation) : null)),
})

/** Longer values are kept as their digest: a group must not cost as much as an event's metadata. */
const maxKeyLength = 200

/** Values of the fields as one text; undefined where one is missing, or is no single value. */
export function keyOf(fields: readonly Field[], event: RuleEvent): string | undefined {
  const values: string[] = []
  for (const field of fields) {
    const value = field.read(event)
    if (typeof value !== 'string' && typeof value !== 'number' && typeof value !== 'boolean') return undefined
    const text = String(value)
    values.push(text.length > maxKeyLength ? `sha256:${createHash('sha256').update(text).digest('hex')}` : text)
  }
  return JSON.stringify(values)
}

const sizeOf = ({ marks, values, steps, chains }: Group): number =>
  (marks?.length ?? 0) +
  (values?.size ?? 0) +
  (steps?.length ?? 0) +
  (chains?.reduce((sum, chain) => sum + (chain?.length ?? 0), 0) ?? 0)

/** The values that an event shows: of a list each by itself. */
function valuesOf(fields: readonly Field[], event: RuleEvent): string[] {
  const [only] = fields
  const value = fields.length === 1 ? only!.read(event) : undefined
  const readers = Array.isArray(value) ? value.map((element) => [{ name: '', read: () => element }]) : [fields]
  return [...new Set(readers.map((reader) => keyOf(reader, event)).filter((key) => key !== undefined))]
}

function dropIdle({ timespan }: Correlation, state: CorrelationState, { time, cooldown }: Surroundings): void {
  const life = Math.max(timespan, cooldown)
  for (const [key, group] of state.groups) {
    if (group.touched + life >= time) break
    state.groups.delete(key)
    state.entries -= sizeOf(group)
  }
}

function dropOldest(state: CorrelationState, { bounds, evict }: Surroundings): void {
  for (const [key, group] of state.groups) {
    const isWithin = state.groups.size <= bounds.groups && state.entries <= bounds.entries
    if (isWithin || state.groups.size === 1) break
    state.groups.delete(key)
    state.entries -= sizeOf(group)
    evict()
  }
}

/** Changes a group, which becomes the newest, and keeps the bounds. */
function change<Result>(
  correlation: Correlation,
  state: CorrelationState,
  key: string,
  around: Surroundings,
  work: (group: Group) => Result,
): Result {
  dropIdle(correlation, state, around)
  const group = state.groups.get(key) ?? { touched: around.time }
  const before = state.groups.delete(key) ? sizeOf(group) : 0
  group.touched = around.time
  state.groups.set(key, group)
  const result = work(group)
  state.entries += sizeOf(group) - before
  dropOldest(state, around)
  return result
}

/** What a window holds. The events are listed only when the rule fires: a window may have thousands. */
interface Counted {
  count: number
  seqs(): number[]
}

const countOf = (marks: readonly Mark[]): Counted => ({
  count: marks.length,
  seqs: () => marks.map(([, seq]) => seq),
})

/** As many as the condition distinguishes: beyond `max` it matters only that there are more. */
const capOf = ({ min, max }: Correlation): number => Math.max(1, Number.isFinite(max) ? max + 1 : min)

function countEvents(correlation: Correlation, group: Group, { time, seq }: Surroundings): Counted {
  group.marks ??= []
  const { marks } = group
  marks.push([time, seq])
  const from = time - correlation.timespan
  let old = Math.max(0, marks.length - capOf(correlation))
  while (marks[old]![0] < from) old += 1
  if (old > 0) marks.splice(0, old)
  return countOf(marks)
}

function countValues(correlation: Correlation, group: Group, values: string[], { time, seq }: Surroundings): Counted {
  group.values ??= new Map()
  const { values: known } = group
  for (const value of values) {
    known.delete(value)
    known.set(value, [time, seq])
  }
  const from = time - correlation.timespan
  const cap = capOf(correlation)
  for (const [value, [seen]] of known) {
    if (seen >= from && known.size <= cap) break
    known.delete(value)
  }
  return { count: known.size, seqs: () => [...known.values()].map(([, each]) => each) }
}

function findTogether(
  { steps, timespan }: Correlation,
  group: Group,
  matched: boolean[],
  { time, seq }: Surroundings,
): Counted {
  group.steps ??= steps.map(() => null)
  const known = group.steps
  for (const [index, isMatched] of matched.entries()) if (isMatched) known[index] = [time, seq]
  return countOf(known.filter((mark): mark is Mark => mark !== null && mark[0] >= time - timespan))
}

/**
 * Of all sequences of the first steps, the one that began last is kept: where it does not end within the timespan, no other
 * does. From the last step to the first, so that an event is one step of a sequence.
 */
function findInOrder(
  { steps, timespan }: Correlation,
  group: Group,
  matched: boolean[],
  { time, seq }: Surroundings,
): Counted {
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
  return countOf(isNow ? whole! : [])
}

function findNew(correlation: Correlation, group: string, values: string[], around: Surroundings): Counted {
  const { time, seq, history } = around
  const { timespan, learning, name } = correlation
  const key = `${name}${group}`
  // All of the event are judged before one is noted: its first value must not make the group known.
  const isNew = values.map((value) => {
    const { groupSince, valueSeen } = history.look(key, value)
    const isKnownGroup = groupSince !== undefined && groupSince <= time - learning
    return isKnownGroup && (valueSeen === undefined || valueSeen < time - timespan)
  })
  for (const [index, value] of values.entries()) history.note(key, value, time, isNew[index]!)
  return countOf(isNew.includes(true) ? [[time, seq]] : [])
}

/**
 * Takes one event through a correlation and those within it. `holds` says which predicates match it. Every event of the log
 * is to come once, in order of seq.
 */
export function advance(
  correlation: Correlation,
  state: CorrelationState,
  event: RuleEvent,
  holds: (predicate: Predicate) => boolean,
  around: Surroundings,
): Hit | undefined {
  const { type, steps, groupBy, min, max } = correlation
  const matched = steps.map((step, index) =>
    'predicate' in step
      ? holds(step.predicate)
      : advance(step.correlation, state.inner[index]!, event, holds, { ...around, cooldown: 0 }) !== undefined,
  )
  if (!matched.includes(true)) return undefined
  const group = keyOf(groupBy, event)
  if (group === undefined) return undefined
  const hit = ({ count, seqs }: Counted): Hit | undefined =>
    count >= min && count <= max ? { group, seqs: [...new Set(seqs())].sort((a, b) => a - b), count } : undefined
  const values = correlation.values.length === 0 ? [] : valuesOf(correlation.values, event)
  if (correlation.values.length > 0 && values.length === 0) return undefined
  if (type === 'new_value') return hit(findNew(correlation, group, values, around))
  return change(correlation, state, group, around, (kept) => {
    switch (type) {
      case 'event_count':
        return hit(countEvents(correlation, kept, around))
      case 'value_count':
        return hit(countValues(correlation, kept, values, around))
      case 'temporal':
        return hit(findTogether(correlation, kept, matched, around))
      case 'temporal_ordered':
        return hit(findInOrder(correlation, kept, matched, around))
    }
  })
}

/** Whether the group may fire now: false while its cooldown lasts. Notes that it does. */
export function mayFire(
  correlation: Correlation,
  state: CorrelationState,
  group: string,
  around: Surroundings,
): boolean {
  const { time, cooldown } = around
  if (cooldown === 0) return true
  return change(correlation, state, group, around, (kept) => {
    if (kept.firedAt !== undefined && time - kept.firedAt < cooldown) return false
    kept.firedAt = time
    return true
  })
}
