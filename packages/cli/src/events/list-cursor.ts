import type { Client, EventQuery } from '@wardline/contract'
import { InvalidArgumentError } from 'commander'
import { newestEvent } from './event-pages.ts'
import { controlEntries, createSource, type Entry, type Source } from './timeline.ts'

/** The next page contains events and control entries with a seq lower than these. */
interface ListPlace {
  event: string
  /** Undefined for a cursor of a list without control entries. */
  control: string | undefined
}

/** Larger than every seq, for a kind of which nothing was listed yet. */
const top = '999999999999999'

export function readListCursor(text: string): ListPlace {
  const [event = '', control] = text.split('.')
  return { event, control }
}

/** Option parser: validates a cursor without converting it. */
export function listCursorOption(text: string): string {
  if (/^\d{1,15}(\.\d{1,15})?$/.test(text)) return text
  throw new InvalidArgumentError('It must be the cursor that a search printed, such as 1234 or 1234.57.')
}

/** Returns the cursor of the page after these entries. */
export function listCursor(entries: readonly Entry[], before: ListPlace | undefined, hasControl: boolean): string {
  const lowest = (kind: Entry['kind']) => entries.findLast((entry) => entry.kind === kind)?.seq
  const event = lowest('event') ?? before?.event ?? top
  return hasControl ? `${event}.${lowest('control') ?? before?.control ?? top}` : String(event)
}

/** Returns the kills and resumes for a list of events, starting at the same position. */
export async function controlSource(
  call: Client,
  { instance_id, from, to }: EventQuery,
  place: ListPlace | undefined,
  pageSize: number,
): Promise<Source> {
  const filter = { instance_id, from, to }
  if (place?.control !== undefined) {
    return createSource(controlEntries(call, { ...filter, before: place.control }, pageSize))
  }
  if (place === undefined) return createSource(controlEntries(call, filter, pageSize))
  // The cursor has only the position of an event, so control entries start at the time of that event.
  const newest = await newestEvent(call, { before: place.event })
  const until = newest?.created_at ?? new Date(0).toISOString()
  const end = to !== undefined && to < until ? to : until
  return createSource(controlEntries(call, { ...filter, to: end }, pageSize))
}
