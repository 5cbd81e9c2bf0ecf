import { setImmediate as nextTurn } from 'node:timers/promises'
import type { ValueHistory } from './language/correlation.ts'
import { type KnownGroup, type KnownValue, ValueMemory } from './language/value-memory.ts'

/** A row of the database; the value '' stands for the group itself. */
export interface ValueRow {
  group_key: string
  value: string
  seen_at: number
  new_seq: number
  /** Instance that showed the value first, '' = none; null = stored by an older version. */
  reporter: string | null
}

export interface ValueChanges {
  changed: ValueRow[]
  forgotten: Pick<ValueRow, 'group_key' | 'value'>[]
}

/** Rows restored per turn of the event loop: about a millisecond. */
const rowsPerTurn = 1_000

/** Earlier values of groups, and what changed since they were written last. */
export class StoredHistory extends ValueMemory {
  #began = new Set<KnownGroup>()
  #changed = new Set<KnownValue>()
  #dropped = new Set<KnownValue>()
  #emptied = new Set<string>()

  /** `pages`: the rows of a group after the row of the group itself. */
  static async restored(pages: AsyncIterable<readonly ValueRow[]>): Promise<StoredHistory> {
    const history = new StoredHistory()
    const groups = new Map<string, KnownGroup>()
    const byReporter = new Map<string, ValueRow[]>()
    for await (const rows of pages) {
      for (const row of rows) {
        const { group_key, value, seen_at, reporter } = row
        if (value === '') groups.set(group_key, history.restoreGroup(group_key, seen_at))
        else {
          // A group with the values of an older version counts as a reporter.
          const name = reporter ?? group_key
          const known = byReporter.get(name)
          if (known) known.push(row)
          else byReporter.set(name, [row])
        }
      }
    }
    let restored = 0
    for (const [reporter, rows] of byReporter) {
      rows.sort((a, b) => a.seen_at - b.seen_at)
      for (const { group_key, value, seen_at, new_seq } of rows) {
        history.restore(groups.get(group_key)!, value, { reporter, at: seen_at, newSeq: new_seq })
        restored += 1
        if (restored % rowsPerTurn === 0) await nextTurn()
      }
    }
    return history
  }

  protected override began(group: KnownGroup): void {
    this.#began.add(group)
  }

  protected override changed(value: KnownValue): void {
    this.#changed.add(value)
  }

  protected override dropped(value: KnownValue): void {
    this.#changed.delete(value)
    this.#dropped.add(value)
    if (value.group.values.size > 0) return
    this.#began.delete(value.group)
    this.#emptied.add(value.group.key)
  }

  /** Rows that `takeChanges` would return. */
  get pending(): number {
    return this.#began.size + this.#changed.size + this.#dropped.size + this.#emptied.size
  }

  /** Returns the changes since the last call, to be written: first delete what was forgotten. */
  takeChanges(): ValueChanges {
    const began = [...this.#began].map(
      ({ key, since }): ValueRow => ({ group_key: key, value: '', seen_at: since, new_seq: 0, reporter: null }),
    )
    const changed = [...this.#changed].map(
      ({ group, value, at, newSeq, reporter }): ValueRow => ({
        group_key: group.key,
        value,
        seen_at: at,
        new_seq: newSeq,
        reporter: reporter.name,
      }),
    )
    const dropped = [...this.#dropped].map(({ group, value }) => ({ group_key: group.key, value }))
    const emptied = [...this.#emptied].map((group_key) => ({ group_key, value: '' }))
    this.#began = new Set()
    this.#changed = new Set()
    this.#dropped = new Set()
    this.#emptied = new Set()
    return { changed: [...began, ...changed], forgotten: [...dropped, ...emptied] }
  }

  /** The same history as it was at each event of the past, for a state that is rebuilt: it changes nothing. */
  asBefore(): ValueHistory & { seq: number } {
    const find = (key: string, value: string) => this.find(key, value)
    return {
      seq: 0,
      look(key, value) {
        const isNew = find(key, value)?.newSeq === this.seq
        return isNew ? { groupSince: Number.NEGATIVE_INFINITY, valueSeen: undefined } : {}
      },
      note() {},
    }
  }
}
