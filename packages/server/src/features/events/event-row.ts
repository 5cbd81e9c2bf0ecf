import { isoTime } from '../../clock.ts'
import type { EventFields } from '../../db/schema/events.ts'

/** An event published by another program. It is not stored, so it has no seq. */
export type OutsideEvent = Omit<EventFields, 'seq'> & { seq: null }

/** Returns the address that the service saw; null if it saw none. What a report says of itself is no observation. */
export const observedAddress = ({
  ip_address,
  observed_ip_address,
}: Pick<EventFields, 'ip_address' | 'observed_ip_address'>): string | null =>
  observed_ip_address === null ? ip_address : observed_ip_address || null

/**
 * Returns an event as JSON for streams and lists (EventRow of the contract). Metadata is stored as JSON and inserted
 * unchanged, so that events are not parsed again for readers.
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
    observed_ip_address: observedAddress(event),
    created_at,
  }
  return `${JSON.stringify(row).slice(0, -1)}${metadataMark}${event.metadata ?? 'null'}}`
}

/** Start of the last field. It cannot occur earlier, because quotes within JSON strings are escaped. */
const metadataMark = ',"metadata":'

/** Parses the output of `eventRowJson`; metadata stays JSON text. Throws for other input. */
export function parseEventRow(json: string): EventFields {
  const end = json.indexOf(metadataMark)
  if (end < 0) throw new SyntaxError('The row has no metadata.')
  const row = JSON.parse(`${json.slice(0, end)}}`)
  const metadata = json.slice(end + metadataMark.length, -1)
  const created_at = Date.parse(row.created_at)
  if (!Number.isSafeInteger(row.seq) || Number.isNaN(created_at)) throw new SyntaxError('The row has no seq or time.')
  // Processes of an earlier version sign rows without these fields.
  const by_service = row.by_service === true ? 1 : 0
  const { ip_address, observed_ip_address: observed = ip_address } = row
  const observed_ip_address = observed === ip_address ? null : (observed ?? '')
  return { ...row, by_service, created_at, observed_ip_address, metadata: metadata === 'null' ? null : metadata }
}
