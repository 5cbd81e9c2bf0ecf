import { setImmediate as nextTurn } from 'node:timers/promises'
import type { ValueHistory } from './language/correlation.ts'
import { compactKey } from './language/group-keys.ts'
import { isEmpty, type KnownGroup, type KnownValue, ValueMemory } from './language/value-memory.ts'

/** A row of the database; the value '' stands for the group itself. */
export interface ValueRow {
  group_key: string
  value: string
  seen_at: number
  new_seq: number
  /** Instance that showed the value, '' = none, '*' = several; null = stored by an older version. */
  reporter: string | null
}

export interface ValueChanges {
  changed: ValueRow[]
  forgotten: Pick<ValueRow, 'group_key' | 'value'>[]
}

/** Rows restored per turn of the event loop: about a millisecond. */
const rowsPerTurn = 1_000

/** Sorts rows by their time, a few thousand in a turn of the event loop. */
async function byTime(rows: readonly ValueRow[]): Promise<ValueRow[]> {
  if (rows.length <= rowsPerTurn) return rows.toSorted((a, b) => a.seen_at - b.seen_at)
  const middle = Math.floor(rows.length / 2)
  const [older, newer] = [await byTime(rows.slice(0, middle)), await byTime(rows.slice(middle))]
  await nextTurn()
  const sorted: ValueRow[] = []
  let at = 0
  for (const row of newer) {
    for (; at < older.length && older[at]!.seen_at <= row.seen_at; at += 1) sorted.push(older[at]!)
    sorted.push(row)
  }
  return sorted.concat(older.slice(at))
}

/** Drops the older half of the rows of the reporter with the most; returns how many. */
async function dropOldHalf(byReporter: Map<string, ValueRow[]>): Promise<number> {
  const [reporter, rows] = [...byReporter].reduce((max, each) => (each[1].length > max[1].length ? each : max))
  const kept = (await byTime(rows)).slice(Math.ceil(rows.length / 2))
  byReporter.set(reporter, kept)
  return rows.length - kept.length
}

/** Returns rows with long keys, which an older version stored, as they are stored now. */
export function compactRows(rows: readonly ValueRow[]): ValueRow[] {
  return rows.map((row) => ({ ...row, group_key: compactKey(row.group_key), value: compactKey(row.value) }))
}

/** The time of a value is stored again once it moved by this part of the rule's timespan. */
const movedParts = 64

/**
 * Earlier values of groups, and what changed since they were written last. Busy agents show the same values with each
 * event: a time that moved a little is not written, so after a restart a value may count as new that much too early.
 */
export class StoredHistory extends ValueMemory {
  readonly #movedMs: number
  #began = new Set<KnownGroup>()
  #changed = new Set<KnownValue>()
  #dropped = new Set<KnownValue>()
  #emptied = new Set<string>()

  /** `timespan` of the correlation that uses it, in milliseconds: the shortest one. */
  constructor(timespan: number) {
    super()
    this.#movedMs = timespan / movedParts
  }

  /** Adds stored rows; of too many, it leaves out the oldest. `rest` waits for the next turn of the event loop. */
  async load(pages: AsyncIterable<readonly ValueRow[]>, rest: () => Promise<unknown> = nextTurn): Promise<void> {
    const groups = new Map<string, number>()
    const byReporter = new Map<string, ValueRow[]>()
    let count = 0
    for await (const rows of pages) {
      for (const row of rows) {
        const { group_key, value, seen_at, reporter } = row
        if (value === '') groups.set(group_key, seen_at)
        else {
          // A group with the values of an older version counts as a reporter.
          const name = reporter ?? `[${group_key}`
          const known = byReporter.get(name)
          if (known) known.push(row)
          else byReporter.set(name, [row])
          count += 1
        }
      }
      while (count > this.maxValues) count -= await dropOldHalf(byReporter)
    }
    let restored = 0
    for (const [reporter, rows] of byReporter) {
      for (const { group_key, value, seen_at, new_seq } of await byTime(rows)) {
        if (this.find(group_key, value)) continue
        const group = this.groupOf(group_key) ?? this.restoreGroup(group_key, groups.get(group_key) ?? seen_at)
        this.restore(group, value, { reporter, at: seen_at, newSeq: new_seq, storedAt: seen_at })
        restored += 1
        if (restored % rowsPerTurn > 0) continue
        this.memory.settle('')
        await rest()
      }
      this.memory.settle('')
    }
  }

  protected override began(group: KnownGroup): void {
    this.#began.add(group)
  }

  protected override shown(value: KnownValue): void {
    if (value.at - value.storedAt >= this.#movedMs) this.#changed.add(value)
  }

  protected override dropped(value: KnownValue): void {
    this.#changed.delete(value)
    this.#dropped.add(value)
    if (!isEmpty(value.group)) return
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
    const changed = [...this.#changed].map((known): ValueRow => {
      const { group, value, at, newSeq, share } = known
      known.storedAt = at
      return { group_key: group.key, value, seen_at: at, new_seq: newSeq, reporter: share!.name }
    })
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
