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
  readonly values: Map<string, KnownValue>
  /** The value shown last, unless it was dropped. */
  newest: KnownValue | undefined
}

interface ValueBounds {
  /** Maximum values, a group counted as `groupEntries`. */
  entries: number
  /** Maximum of them of one instance. */
  instanceEntries: number
}

/** Bytes of a value with its key and its places in the maps; measured, rounded up. */
const valueBytes = 280
/** A group takes the memory of this many values. */
const groupEntries = 2

const valueBounds: ValueBounds = {
  entries: Math.floor(stateBytes / valueBytes),
  instanceEntries: ruleLimits.instanceValues,
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
    this.memory = new MemoryLimit(bounds.entries * valueBytes)
    this.#shares = new Shares(this.memory, (value) => this.#drop(value))
  }

  look(key: string, value: string) {
    const group = this.#groups.get(key)
    return { groupSince: group?.since, valueSeen: group?.values.get(value)?.at }
  }

  protected groupOf(key: string): KnownGroup | undefined {
    return this.#groups.get(key)
  }

  protected find(key: string, value: string): KnownValue | undefined {
    return this.#groups.get(key)?.values.get(value)
  }

  /** Maximum values. */
  protected get maxValues(): number {
    return this.#bounds.entries
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
    this.#shares.trim(reporter, this.#bounds.instanceEntries * valueBytes)
    this.memory.settle(reporter)
  }

  protected began(_group: KnownGroup): void {}

  protected shown(_value: KnownValue): void {}

  /** A value was dropped, and its group if that is empty now. */
  protected dropped(_value: KnownValue): void {}

  protected restoreGroup(key: string, since: number): KnownGroup {
    const group: KnownGroup = { key, since, values: new Map(), newest: undefined }
    this.#groups.set(key, group)
    return group
  }

  /** Adds a value as the most recently shown of its reporter. */
  protected restore(
    group: KnownGroup,
    value: string,
    { reporter, ...shown }: { reporter: string } & Pick<KnownValue, 'at' | 'newSeq' | 'storedAt'>,
  ): KnownValue {
    // The value with which a group begins counts for both.
    const entries = group.values.size === 0 ? 1 + groupEntries : 1
    const added: KnownValue = {
      group,
      value,
      ...shown,
      bytes: entries * valueBytes,
      share: undefined,
      older: undefined,
      newer: undefined,
    }
    group.values.set(value, added)
    group.newest = added
    this.#shares.add(added, reporter)
    return added
  }

  #drop(dropped: KnownValue): void {
    const { group, value } = dropped
    group.values.delete(value)
    if (group.newest === dropped) group.newest = undefined
    if (group.values.size === 0) this.#groups.delete(group.key)
    else if (dropped.bytes > valueBytes) this.#bequeath(group)
    this.dropped(dropped)
  }

  /** Counts the group for another value: an agent must not have groups that count for none. */
  #bequeath(group: KnownGroup): void {
    group.newest ??= group.values.values().next().value!
    this.#shares.resize(group.newest, (1 + groupEntries) * valueBytes)
  }
}
