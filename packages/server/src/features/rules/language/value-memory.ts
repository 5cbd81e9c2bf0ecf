import { ruleLimits } from '@wardline/contract'
import type { Noted, ValueHistory } from './correlation.ts'
import { MemoryLimit } from './memory-limit.ts'
import { stateBytes } from './rule-memory.ts'
import { type Owned, Shares } from './shares.ts'

/** A value that a group showed: when last, and at which event it was new last (0 = never). */
export interface KnownValue extends Owned<KnownValue> {
  readonly group: KnownGroup
  readonly value: string
  newSeq: number
  /** `at` as it was stored last; -Infinity if it must be stored. */
  storedAt: number
}

export interface KnownGroup {
  readonly key: string
  /** Since when the group is known. */
  since: number
  /** The value shown last, unless it was dropped. */
  newest: KnownValue | undefined
  /** By their text, once there were two; a single one is `newest`. Most groups have one, and a map is larger than it. */
  values: Map<string, KnownValue> | undefined
}

export const isEmpty = ({ values, newest }: KnownGroup): boolean =>
  values === undefined ? newest === undefined : values.size === 0

interface ValueBounds {
  bytes: number
  /** Maximum of them of one instance. */
  instanceBytes: number
}

/** Bytes of a value and of a group without their texts, of the map of several values, and of a place in it; measured. */
const valueBytes = 160
const groupBytes = 168
const mapBytes = 216
const placeBytes = 56
/** Bytes of a character; V8 stores most texts in half of it. */
const characterBytes = 2

const valueBounds: ValueBounds = {
  bytes: stateBytes,
  instanceBytes: ruleLimits.instanceValues * (valueBytes + placeBytes),
}

const sizeOf = ({ value, group }: KnownValue): number =>
  valueBytes + value.length * characterBytes + (group.values ? placeBytes : 0)

const sizeOfGroup = ({ key, values }: KnownGroup): number =>
  groupBytes + key.length * characterBytes + (values ? mapBytes : 0)

function knownIn(group: KnownGroup | undefined, value: string): KnownValue | undefined {
  if (group?.values) return group.values.get(value)
  return group?.newest?.value === value ? group.newest : undefined
}

/**
 * Earlier values of groups, for new_value. Each instance has a limit for what it alone showed; a value that another one
 * shows as well leaves its share. The least recently shown value goes first, and its group stays while it has others: a new
 * group would learn again, in silence.
 */
export class ValueMemory implements ValueHistory {
  readonly memory: MemoryLimit
  readonly #bounds: ValueBounds
  readonly #groups = new Map<string, KnownGroup>()
  readonly #shares: Shares<KnownValue>

  constructor(bounds: ValueBounds = valueBounds) {
    this.#bounds = bounds
    this.memory = new MemoryLimit(bounds.bytes)
    this.#shares = new Shares(this.memory, (value) => this.#drop(value))
  }

  look(key: string, value: string) {
    const group = this.#groups.get(key)
    return { groupSince: group?.since, valueSeen: knownIn(group, value)?.at }
  }

  protected groupOf(key: string): KnownGroup | undefined {
    return this.#groups.get(key)
  }

  protected find(key: string, value: string): KnownValue | undefined {
    return knownIn(this.#groups.get(key), value)
  }

  /** More values than this never fit. */
  protected get maxValues(): number {
    return Math.floor(this.#bounds.bytes / valueBytes)
  }

  note(key: string, value: string, { reporter, time, newSeq }: Noted): void {
    const known = this.find(key, value)
    if (known) {
      known.at = time
      known.group.newest = known
      if (newSeq !== undefined) known.newSeq = newSeq
      const { share } = known
      this.#shares.use(known, reporter)
      if (newSeq !== undefined || known.share !== share) known.storedAt = Number.NEGATIVE_INFINITY
      this.shown(known)
      return
    }
    let group = this.#groups.get(key)
    if (!group) {
      group = this.restoreGroup(key, time)
      this.began(group)
    }
    const added = { reporter, at: time, newSeq: newSeq ?? 0, storedAt: Number.NEGATIVE_INFINITY }
    this.shown(this.restore(group, value, added))
    this.#shares.trim(reporter, this.#bounds.instanceBytes)
    this.memory.settle(reporter)
  }

  protected began(_group: KnownGroup): void {}

  protected shown(_value: KnownValue): void {}

  /** A value was dropped, and its group if that is empty now. */
  protected dropped(_value: KnownValue): void {}

  protected restoreGroup(key: string, since: number): KnownGroup {
    const group: KnownGroup = { key, since, newest: undefined, values: undefined }
    this.#groups.set(key, group)
    return group
  }

  /** Adds a value as the most recently shown of its reporter. */
  protected restore(
    group: KnownGroup,
    value: string,
    { reporter, ...shown }: { reporter: string } & Pick<KnownValue, 'at' | 'newSeq' | 'storedAt'>,
  ): KnownValue {
    const isFirst = isEmpty(group)
    const added: KnownValue = {
      group,
      value,
      ...shown,
      bytes: 0,
      share: undefined,
      older: undefined,
      newer: undefined,
    }
    if (!isFirst) this.#valuesOf(group).set(value, added)
    // The value with which a group begins counts for both.
    added.bytes = sizeOf(added) + (isFirst ? sizeOfGroup(group) : 0)
    group.newest = added
    this.#shares.add(added, reporter)
    return added
  }

  #valuesOf(group: KnownGroup): Map<string, KnownValue> {
    if (group.values) return group.values
    const only = group.newest!
    group.values = new Map([[only.value, only]])
    this.#shares.resize(only, sizeOf(only) + sizeOfGroup(group))
    return group.values
  }

  #drop(dropped: KnownValue): void {
    const { group, value } = dropped
    group.values?.delete(value)
    if (group.newest === dropped) group.newest = undefined
    if (isEmpty(group)) this.#groups.delete(group.key)
    else if (dropped.bytes > sizeOf(dropped)) this.#bequeath(group)
    this.dropped(dropped)
  }

  /** Counts the group for another value: an agent must not have groups that count for none. */
  #bequeath(group: KnownGroup): void {
    group.newest ??= group.values!.values().next().value!
    this.#shares.resize(group.newest, sizeOf(group.newest) + sizeOfGroup(group))
  }
}
