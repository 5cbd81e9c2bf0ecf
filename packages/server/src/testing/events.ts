import { type EventColumn, eventColumns } from '@wardline/contract'
import type { EventFields } from '../db/schema/events.ts'

/** Every column of an event, unset. */
export const unsetColumns = Object.fromEntries(eventColumns.map((name) => [name, null])) as Record<EventColumn, null>

/** Returns a stored event with these columns. */
export const storedEvent = (columns: Partial<EventFields> & { seq: number }): EventFields => ({
  ...unsetColumns,
  id: `00000000-0000-7000-8000-${String(columns.seq).padStart(12, '0')}`,
  created_at: 0,
  severity: 'info',
  source: 's',
  by_service: 0,
  event_type: 'note',
  description: '',
  ...columns,
})
