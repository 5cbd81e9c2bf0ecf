import { isoTime } from '../../clock.ts'
import type { EventFields } from '../../db/schema/events.ts'

/** An event that another program published: it is not stored, so it has no place in the sequence. */
export type OutsideEvent = Omit<EventFields, 'seq'> & { seq: null }

/**
 * The JSON of an event in the form in which it is streamed and listed (EventRow of the contract).
 * Metadata is stored as JSON and goes in as it is: no event is parsed again on its way to a reader.
 */
export function eventRowJson(event: EventFields | OutsideEvent): string {
  const { id, seq, severity, source, event_type, description, instance_id, session_id, ip_address } = event
  const created_at = isoTime(event.created_at)
  const row = {
    id,
    seq,
    severity,
    source,
    by_service: event.by_service === 1,
    event_type,
    description,
    instance_id,
    session_id,
    ip_address,
    created_at,
  }
  return `${JSON.stringify(row).slice(0, -1)}${metadataMark}${event.metadata ?? 'null'}}`
}

/** Within a JSON text every quote is escaped, so this stands where the last field begins and nowhere before. */
const metadataMark = ',"metadata":'

/** The event of a JSON that `eventRowJson` made; metadata stays the text that it is. Throws when it is no such JSON. */
export function parseEventRow(json: string): EventFields {
  const end = json.indexOf(metadataMark)
  if (end < 0) throw new SyntaxError('The row has no metadata.')
  const row = JSON.parse(`${json.slice(0, end)}}`)
  const metadata = json.slice(end + metadataMark.length, -1)
  const created_at = Date.parse(row.created_at)
  if (!Number.isSafeInteger(row.seq) || Number.isNaN(created_at)) throw new SyntaxError('The row has no seq or time.')
  // A process of the version before signs rows without the field.
  const by_service = row.by_service === true ? 1 : 0
  return { ...row, by_service, created_at, metadata: metadata === 'null' ? null : metadata }
}
