import { ruleLimits } from '@wardline/contract'
import { ByUse, type Linked } from './language/by-use.ts'
import type { ValueHistory } from './language/correlation.ts'

/** A value that a group showed: when last, and at which event it was new last (0 = it never was). */
interface Seen {
  at: number
  newSeq: number
}

interface KnownGroup extends Linked<KnownGroup> {
  since: number
  values: Map<string, Seen>
}

/** A row of the database; the value '' stands for the group itself. */
export interface ValueRow {
  group_key: string
  value: string
  seen_at: number
  new_seq: number
}

export interface ValueChanges {
  changed: ValueRow[]
  /** Groups that were dropped. */
  forgotten: string[]
}

const bounds = { groups: ruleLimits.groups, entries: ruleLimits.groupEntries }

/**
 * Earlier values of groups, for new_value. Kept in memory within the limits of a rule; the least recently used group is
 * dropped first. Changes are written together with the position in the log.
 */
export class StoredHistory implements ValueHistory {
  readonly #groups = new ByUse<KnownGroup>()
  #entries = 0
  #dirty = new Map<string, Set<string>>()
  #forgotten = new Set<string>()
  evicted = 0
  /** The event being processed. */
  seq = 0

  /** `rows`: by time, oldest first. */
  constructor(rows: readonly ValueRow[] = []) {
    for (const { group_key, value, seen_at, new_seq } of rows) {
      const group = this.#use(group_key, seen_at)
      if (value === '') group.since = seen_at
      else {
        group.values.set(value, { at: seen_at, newSeq: new_seq })
        this.#entries += 1
      }
    }
  }

  look(key: string, value: string) {
    const group = this.#groups.get(key)
    return { groupSince: group?.since, valueSeen: group?.values.get(value)?.at }
  }

  note(key: string, value: string, time: number, isNew: boolean): void {
    if (!this.#groups.get(key)) this.#mark(key, '')
    const group = this.#use(key, time)
    const seen = group.values.get(value)
    if (!seen) this.#entries += 1
    group.values.set(value, { at: time, newSeq: isNew ? this.seq : (seen?.newSeq ?? 0) })
    this.#mark(key, value)
    const groups = this.#groups
    while ((groups.size > bounds.groups || this.#entries > bounds.entries) && groups.size > 1) {
      const oldest = groups.oldest!
      groups.delete(oldest)
      this.#entries -= oldest.values.size
      this.#dirty.delete(oldest.key)
      this.#forgotten.add(oldest.key)
      this.evicted += 1
    }
  }

  /** Returns the group of this key as the most recently used. */
  #use(key: string, since: number): KnownGroup {
    const known = this.#groups.get(key)
    if (known) {
      this.#groups.use(known)
      return known
    }
    const group = { key, since, values: new Map<string, Seen>(), older: undefined, newer: undefined }
    this.#groups.add(group)
    return group
  }

  #mark(key: string, value: string): void {
    const values = this.#dirty.get(key) ?? new Set<string>()
    values.add(value)
    this.#dirty.set(key, values)
  }

  /** Minimum number of rows that `takeChanges` would return. */
  get pending(): number {
    return this.#dirty.size + this.#forgotten.size
  }

  /** Returns the changes since the last call, to be written. */
  takeChanges(): ValueChanges {
    const changed = [...this.#dirty].flatMap(([group_key, values]) => {
      const group = this.#groups.get(group_key)!
      return [...values].map((value): ValueRow => {
        if (value === '') return { group_key, value, seen_at: group.since, new_seq: 0 }
        const { at, newSeq } = group.values.get(value)!
        return { group_key, value, seen_at: at, new_seq: newSeq }
      })
    })
    const forgotten = [...this.#forgotten]
    this.#dirty = new Map()
    this.#forgotten = new Set()
    return { changed, forgotten }
  }

  /** The same history as it was at each event of the past, for a state that is rebuilt: it changes nothing. */
  asBefore(): ValueHistory & { seq: number } {
    const groups = this.#groups
    return {
      seq: 0,
      look(key, value) {
        const isNew = groups.get(key)?.values.get(value)?.newSeq === this.seq
        return isNew ? { groupSince: Number.NEGATIVE_INFINITY, valueSeen: undefined } : {}
      },
      note() {},
    }
  }
}
