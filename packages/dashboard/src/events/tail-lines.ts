import { type Client, limits } from '@wardline/contract'
import type { EventFilter, Row } from '../data/live-tail.ts'

/** A line of the list: an event, or the number of streamed events that were skipped. */
type TailLine =
  | { kind: 'row'; key: string; row: Row }
  | { kind: 'gap'; key: string; count: number; below: Row; above: Row | undefined }
export type Gap = Extract<TailLine, { kind: 'gap' }>

type Skipped = Readonly<Record<string, number>>

/** Returns the lines of the list, newest first. A gap comes above the row that it is counted on. */
export function tailLines(rows: readonly Row[], skipped: Skipped): TailLine[] {
  return rows.flatMap((row, index): TailLine[] => {
    const count = skipped[row.id] ?? 0
    const line: TailLine = { kind: 'row', key: row.id, row }
    if (count === 0) return [line]
    return [{ kind: 'gap', key: `gap ${row.id}`, count, below: row, above: rows[index - 1] }, line]
  })
}

/** Reads the newest events of a gap and inserts them; the rest of the gap stays below them. */
export async function withMissing(
  held: { rows: readonly Row[]; skipped: Skipped },
  { below, above, count }: Gap,
  filter: EventFilter,
  call: Client,
): Promise<{ rows: Row[]; skipped: Skipped }> {
  const query = {
    ...filter,
    limit: String(limits.pageSize),
    ...(below.seq === null ? {} : { after: String(below.seq) }),
    ...(above?.seq ? { before: String(above.seq) } : {}),
  }
  const { events, next } = await call('listEvents', { query })
  const known = new Set(held.rows.map(({ id }) => id))
  const found = events.filter(({ id }) => !known.has(id))
  const index = held.rows.findIndex(({ id }) => id === below.id)
  const { [below.id]: _shown, ...others } = held.skipped
  const left = next === null ? 0 : Math.max(0, count - found.length)
  return {
    rows: [...held.rows.slice(0, index), ...found, ...held.rows.slice(index)],
    skipped: left === 0 ? others : { ...others, [below.id]: left },
  }
}
