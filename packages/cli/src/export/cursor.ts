import type { Client, ControlChange } from '@wardline/contract'
import { InvalidArgumentError } from 'commander'
import { newestEvent } from '../events/event-pages.ts'
import type { Entry } from '../events/timeline.ts'
import { Failure } from '../exit.ts'

export type Kind = Entry['kind']

/** Position in the order of one kind: after this entry. `at` reveals another database that has the same seq. */
interface Place {
  seq: number
  /** Epoch milliseconds; 0 before the first entry. */
  at: number
}

/** Position at which an export ended, for each kind in it. */
export type Cursor = Partial<Record<Kind, Place>>

const letters = { event: 'e', control: 'c', audit: 'a' } as const satisfies Record<Kind, string>
export const kinds = Object.keys(letters) as Kind[]

/** Returns a cursor such as `e1234@1795263747770.c57@1795263741000`. */
export function formatCursor(cursor: Cursor): string {
  return kinds
    .flatMap((kind) => {
      const place = cursor[kind]
      return place ? [`${letters[kind]}${place.seq}@${place.at}`] : []
    })
    .join('.')
}

/** Option parser of a cursor. */
export function cursorOption(text: string): Cursor {
  const cursor: Cursor = {}
  for (const part of text.split('.')) {
    const [, letter, seq, at] = /^([eca])(\d{1,15})@(\d{1,15})$/.exec(part) ?? []
    const kind = kinds.find((name) => letters[name] === letter)
    if (kind === undefined || cursor[kind]) {
      throw new InvalidArgumentError('It must be the cursor that an export printed, such as e1234@1795263747770.')
    }
    cursor[kind] = { seq: Number(seq), at: Number(at) }
  }
  return cursor
}

type Numbered = Pick<ControlChange, 'seq' | 'at'>

/** Return the newest entry with a seq between `after` and `before`, exclusive; undefined if there is none. */
const newest: Record<
  Kind,
  (call: Client, bounds: { after?: string; before?: string }) => Promise<Numbered | undefined>
> = {
  event: async (call, bounds) => {
    const row = await newestEvent(call, bounds)
    return row && { seq: row.seq, at: row.created_at }
  },
  control: async (call, bounds) => (await call('listControlChanges', { query: { ...bounds, limit: '1' } })).changes[0],
  audit: async (call, bounds) => {
    const { entries } = await call('listAudit', { query: { ...bounds, order: 'newest', limit: '1' } })
    return entries[0]
  },
}

const otherDatabase = (kind: Kind) =>
  new Failure(
    `The cursor belongs to another database: ${kind} entries are numbered differently here, as after a restore or a move. Export without --since, then continue from the new cursor.`,
    'foreign_cursor',
    'refused',
  )

/**
 * Returns the current end of these kinds, at which an export that starts now ends. Later entries have a higher seq and
 * all entries up to it are committed, so the next export continues exactly here. Throws Failure if `since` is from
 * another database.
 */
export async function findEnd(call: Client, wanted: readonly Kind[], since: Cursor | undefined): Promise<Cursor> {
  const end: Cursor = {}
  for (const kind of wanted) {
    const last = await newest[kind](call, {})
    const from = since?.[kind]
    // Retention may have removed all events.
    end[kind] = last ? { seq: last.seq, at: Date.parse(last.at) } : (from ?? { seq: 0, at: 0 })
    if (from === undefined || from.seq === 0) continue
    // Audit log entries, which include control entries, are never removed.
    if (last ? last.seq < from.seq : kind !== 'event') throw otherDatabase(kind)
    const same = await newest[kind](call, { after: String(from.seq - 1), before: String(from.seq + 1) })
    if (same && Date.parse(same.at) !== from.at) throw otherDatabase(kind)
  }
  return end
}

/** Returns a query for the entries between two positions. */
export const between = (since: Place | undefined, end: Place) => ({
  ...(since === undefined ? {} : { after: String(since.seq) }),
  before: String(end.seq + 1),
})
