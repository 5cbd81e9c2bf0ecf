import { ruleLimits } from '@wardline/contract'
import { type Linked, UseOrder } from './by-use.ts'
import type { Bounds, Noted, ValueHistory } from './correlation.ts'
import { Shares } from './shares.ts'

/** A value that a group showed: when last, and at which event it was new last (0 = never). */
export interface KnownValue extends Linked<KnownValue> {
  readonly group: KnownGroup
  readonly value: string
  readonly reporter: Reporter
  at: number
  newSeq: number
}

export interface KnownGroup {
  readonly key: string
  /** Since when the group is known. */
  since: number
  /** The value with which it began, which counts for both. */
  first: KnownValue | undefined
  readonly values: Map<string, KnownValue>
}

/** The instance that showed values first, with these values by last use. */
interface Reporter extends Linked<Reporter> {
  readonly name: string
  size: number
  readonly values: UseOrder<KnownValue>
}

type ValueBounds = Pick<Bounds, 'entries'> & {
  /** Maximum entries of one reporter. */
  reporterEntries: number
}

const valueBounds: ValueBounds = { entries: ruleLimits.groupEntries, reporterEntries: ruleLimits.instanceValues }

/** A group takes the memory of this many values. */
const groupEntries = 5
/** Reporters named in an eviction report; the others are only counted. */
const maxNamed = 1_000

/**
 * Earlier values of groups, for new_value. Each reporter has a limit, and if all together have too many, those of the
 * reporter with the most go first: a flood makes the service forget what the flooding agent showed, and nothing else. The
 * least recently shown value goes first, and its group stays while it has others: a new group would learn again, in silence.
 */
export class ValueMemory implements ValueHistory {
  readonly #bounds: ValueBounds
  readonly #groups = new Map<string, KnownGroup>()
  readonly #reporters = new Map<string, Reporter>()
  readonly #shares = new Shares<Reporter>()
  /** Values dropped, by reporter; the eviction report clears it. */
  readonly evictedBy = new Map<string, number>()
  /** Values dropped at a limit. */
  evicted = 0
  /** Values, and groups as `groupEntries` each. */
  entries = 0

  constructor(bounds: ValueBounds = valueBounds) {
    this.#bounds = bounds
  }

  look(key: string, value: string) {
    const group = this.#groups.get(key)
    return { groupSince: group?.since, valueSeen: group?.values.get(value)?.at }
  }

  protected find(key: string, value: string): KnownValue | undefined {
    return this.#groups.get(key)?.values.get(value)
  }

  note(key: string, value: string, { reporter, time, newSeq }: Noted): void {
    const known = this.find(key, value)
    if (known) {
      known.at = time
      if (newSeq !== undefined) known.newSeq = newSeq
      known.reporter.values.use(known)
      this.changed(known)
      return
    }
    let group = this.#groups.get(key)
    if (!group) {
      group = this.restoreGroup(key, time)
      this.began(group)
    }
    const added = this.restore(group, value, { reporter, at: time, newSeq: newSeq ?? 0 })
    this.changed(added)
    const { entries, reporterEntries } = this.#bounds
    while (added.reporter.size > reporterEntries) this.#evictFrom(added.reporter)
    while (this.entries > entries) this.#evictFrom(this.#shares.largest!)
  }

  protected began(_group: KnownGroup): void {}

  protected changed(_value: KnownValue): void {}

  /** A value was dropped, and its group if that is empty now. */
  protected dropped(_value: KnownValue): void {}

  protected restoreGroup(key: string, since: number): KnownGroup {
    const group = { key, since, first: undefined, values: new Map() }
    this.#groups.set(key, group)
    return group
  }

  /** Adds a value as the most recently shown of its reporter. */
  protected restore(
    group: KnownGroup,
    value: string,
    { reporter: name, at, newSeq }: { reporter: string; at: number; newSeq: number },
  ): KnownValue {
    let reporter = this.#reporters.get(name)
    if (!reporter) {
      reporter = { name, size: 0, values: new UseOrder(), older: undefined, newer: undefined }
      this.#reporters.set(name, reporter)
    }
    const added: KnownValue = { group, value, reporter, at, newSeq, older: undefined, newer: undefined }
    if (group.values.size === 0) group.first = added
    group.values.set(value, added)
    reporter.values.append(added)
    this.#resize(reporter, sizeOf(added))
    return added
  }

  #resize(reporter: Reporter, by: number): void {
    this.#shares.move(reporter, reporter.size, reporter.size + by)
    reporter.size += by
    this.entries += by
    if (reporter.size === 0) this.#reporters.delete(reporter.name)
  }

  #evictFrom(reporter: Reporter): void {
    const oldest = reporter.values.oldest!
    const { group } = oldest
    reporter.values.unlink(oldest)
    this.#resize(reporter, -sizeOf(oldest))
    group.values.delete(oldest.value)
    if (group.first === oldest) group.first = undefined
    if (group.values.size === 0) this.#groups.delete(group.key)
    this.evicted += 1
    const before = this.evictedBy.get(reporter.name)
    if (before !== undefined || this.evictedBy.size < maxNamed) this.evictedBy.set(reporter.name, (before ?? 0) + 1)
    this.dropped(oldest)
  }
}

const sizeOf = (value: KnownValue): number => (value.group.first === value ? 1 + groupEntries : 1)
