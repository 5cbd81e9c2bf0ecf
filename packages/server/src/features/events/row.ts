import { isoTime } from '../../clock.ts'
import type { StoredEvent } from '../../db/schema.ts'

/**
 * The JSON of a stored event in the form in which it is streamed and listed (EventRow of the contract).
 * Metadata is stored as JSON and goes in as it is: no event is parsed again on its way to a reader.
 */
export function eventRowJson(event: StoredEvent): string {
  const { id, severity, source, event_type, description, instance_id, session_id, ip_address } = event
  const seq = Number(event.seq)
  const created_at = isoTime(Number(event.created_at))
  const row = { id, seq, severity, source, event_type, description, instance_id, session_id, ip_address, created_at }
  return `${JSON.stringify(row).slice(0, -1)},"metadata":${event.metadata ?? 'null'}}`
}
