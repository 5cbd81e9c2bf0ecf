import { type EventColumn, type EventRow, eventColumns } from '@wardline/contract'
import { isoTime } from '../../clock.ts'
import type { EventFields, StoredEvent } from '../../db/schema/events.ts'

/** The columns that are inserted, and their types in SQL. */
export const storedColumns = {
  created_at: 'bigint',
  severity: 'text',
  class: 'text',
  tool: 'text',
  source: 'text',
  event_type: 'text',
  instance_id: 'text',
  session_id: 'text',
  ip_address: 'text',
  observed_ip_address: 'text',
  id: 'text',
  description: 'text',
  metadata: 'text',
  by_service: 'bigint',
} as const satisfies Record<Exclude<keyof StoredEvent, 'seq'>, string>

const storedNames = Object.keys(storedColumns) as (keyof typeof storedColumns)[]

/** Values in the order of `storedColumns`. */
export const storedValues = (event: StoredEvent, createdAt: number) =>
  storedNames.map((name) => (name === 'created_at' ? createdAt : event[name]))

/** An event published by another program. It is not stored, so it has no seq. */
export type OutsideEvent = Omit<EventFields, 'seq'> & { seq: null }

/** Returns the address that the service saw; null if it saw none. What a report says of itself is no observation. */
const observedAddress = ({ ip_address, observed_ip_address }: EventFields | OutsideEvent): string | null =>
  observed_ip_address === null ? ip_address : observed_ip_address || null

/**
 * A stored event as readers see it. Metadata is parsed and the time is formatted on first use, because most rules need few
 * fields.
 */
class EventView {
  readonly #event: EventFields
  #metadata: EventRow['metadata'] | undefined
  #createdAt: string | undefined

  constructor(event: EventFields) {
    this.#event = event
  }

  static {
    for (const name of eventColumns) {
      if (Object.hasOwn(EventView.prototype, name)) continue
      Object.defineProperty(EventView.prototype, name, {
        get(this: EventView) {
          return this.#event[name]
        },
      })
    }
  }

  get by_service() {
    return this.#event.by_service === 1
  }
  get observed_ip_address() {
    return observedAddress(this.#event)
  }
  get created_at() {
    this.#createdAt ??= isoTime(this.#event.created_at)
    return this.#createdAt
  }
  get metadata() {
    if (this.#metadata === undefined) {
      this.#metadata = this.#event.metadata === null ? null : (JSON.parse(this.#event.metadata) as EventRow['metadata'])
    }
    return this.#metadata
  }
}

export const eventRow = (event: EventFields): EventRow => new EventView(event) as unknown as EventRow

/** Start of the last field. It cannot occur earlier, because quotes within JSON strings are escaped. */
const metadataMark = ',"metadata":'

/**
 * Returns an event as JSON for streams and lists (EventRow of the contract). Metadata is stored as JSON and inserted
 * unchanged, so that events are not parsed again for readers. Written out for speed: it runs for every event.
 */
export function eventRowJson(event: EventFields | OutsideEvent): string {
  const row: Record<Exclude<EventColumn, 'metadata'>, unknown> = {
    id: event.id,
    seq: event.seq,
    severity: event.severity,
    source: event.source,
    by_service: event.by_service === 1,
    event_type: event.event_type,
    description: event.description,
    instance_id: event.instance_id,
    session_id: event.session_id,
    ip_address: event.ip_address,
    observed_ip_address: observedAddress(event),
    created_at: isoTime(event.created_at),
  }
  return `${JSON.stringify(row).slice(0, -1)}${metadataMark}${event.metadata ?? 'null'}}`
}

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
