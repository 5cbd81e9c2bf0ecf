import type { EventRow } from '@wardline/contract'
import { type ByUse, type Keyed, type Linked, UseOrder } from './by-use.ts'
import type { Figures } from './figures.ts'
import { type Mark, type Marks, markBytes } from './marks.ts'
import type { MemoryLimit } from './memory-limit.ts'
import { type Owned, Shares } from './shares.ts'

/** A value of a group, with the last event that had it. */
interface SeenValue extends Keyed<SeenValue> {
  time: number
  seq: number
}

/** What a firing says of its event. */
export type FiredEvent = Pick<EventRow, 'id' | 'seq' | 'instance_id' | 'session_id' | 'by_service'>

/** An event whose window has not ended. */
export interface Awaited extends Linked<Awaited> {
  readonly group: Group
  readonly time: number
  readonly event: FiredEvent
}

/** A group of a correlation. Contains only the fields that its type needs. */
export interface Group extends Owned<Group> {
  readonly key: string
  /** event_count: the newest, as many as the condition distinguishes. value_count: by value, oldest first. */
  marks: Marks | undefined
  values: ByUse<SeenValue> | undefined
  /** value_sum, value_avg and value_percentile. */
  figures: Figures | undefined
  /** temporal: the newest event of each step. */
  steps: (Mark | null)[] | undefined
  /** temporal_ordered: for each number of steps, the sequence that began last. */
  chains: (Mark[] | null)[] | undefined
  /** event_count with an upper bound alone: the events whose windows have not ended, oldest first. */
  awaited: Awaited[] | undefined
  /** With these, the values of group-by as a JSON list. */
  text: string
  /** Instance of its newest events, '' = none, and seq of the first of them in a row; undefined: events of several counted as one. */
  instance: string | undefined
  instanceSince: number
}

/** Bytes of a group with its key and its place in the map, of a set of values, and of a value in it; measured, rounded up. */
const groupBytes = 336
const valuesBytes = 256
const seenBytes = 224
/** Bytes of an awaited event with its ids. */
const awaitedBytes = 448

function sizeOf({ marks, values, figures, steps, chains, awaited, text }: Group): number {
  if (awaited) return groupBytes + 2 * text.length + awaited.length * awaitedBytes
  if (figures) return groupBytes + figures.bytes
  if (marks) return groupBytes + marks.bytes
  if (values) return groupBytes + valuesBytes + values.size * seenBytes
  if (steps) return groupBytes + steps.length * markBytes
  return groupBytes + (chains?.reduce((sum, chain) => sum + ((chain?.length ?? 0) + 1) * markBytes, 0) ?? 0)
}

/** The groups of a correlation. */
export class Groups {
  readonly #byKey = new Map<string, Group>()
  readonly #shares: Shares<Group>
  /** Awaited events of all groups, oldest first. */
  readonly awaited = new UseOrder<Awaited>()

  constructor(limit: MemoryLimit) {
    this.#shares = new Shares(limit, ({ key, awaited = [] }) => {
      this.#byKey.delete(key)
      for (const each of awaited) this.awaited.unlink(each)
    })
  }

  get size(): number {
    return this.#byKey.size
  }

  find(key: string): Group | undefined {
    return this.#byKey.get(key)
  }

  /** Returns the group of this key as the most recently used, and drops groups last used before `since`. */
  enter(key: string, instance: string, { time, since }: { time: number; since: number }): Group {
    const known = this.#byKey.get(key)
    const group = known ?? this.#begin(key, time)
    group.at = time
    if (known) this.#shares.use(known, instance)
    else this.#shares.add(group, instance)
    this.#shares.dropBefore(since, group)
    return group
  }

  /** Call after the content of a group changed. */
  changed(group: Group): void {
    this.#shares.resize(group, sizeOf(group))
  }

  #begin(key: string, time: number): Group {
    const group: Group = {
      key,
      at: time,
      bytes: groupBytes,
      share: undefined,
      older: undefined,
      newer: undefined,
      marks: undefined,
      values: undefined,
      figures: undefined,
      steps: undefined,
      chains: undefined,
      awaited: undefined,
      text: '',
      instance: undefined,
      instanceSince: 0,
    }
    this.#byKey.set(key, group)
    return group
  }
}
