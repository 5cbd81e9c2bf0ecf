import type { Static } from 'typebox'
import { access, define } from './endpoint.ts'
import { knownTools, serviceEventTypes, serviceSource } from './event-types.ts'
import {
  Count,
  choice,
  Digits,
  InstanceId,
  Instant,
  limits,
  nullable,
  Pattern,
  Severity,
  severities,
  Timestamp,
  UpTo,
  Uuid,
} from './fields.ts'
import { Type } from './type.ts'

const Metadata = Type.Record(Type.String(), Type.Unknown(), {
  description: `Any JSON object, at most ${limits.metadataBytes / 1024} KiB as JSON and ${limits.jsonDepth} levels deep; only the service sets its field second_witness`,
})

export const EventType = Pattern('^[a-z0-9_]+$', 'may contain only lower-case letters, digits and _', {
  maxLength: limits.eventType,
  description: 'snake_case',
})
const SessionId = Type.String({ minLength: 1, maxLength: limits.sessionId })

export const NewEvent = Type.Object({
  severity: Severity,
  source: Type.String({
    minLength: 1,
    maxLength: limits.source,
    description: `Who reports; ${serviceSource} is reserved for the service`,
  }),
  event_type: EventType,
  description: Type.String({
    minLength: 1,
    maxLength: limits.description,
    description: 'Summary for people; for session_metrics, a JSON object of finite numbers, as text',
  }),
  instance_id: Type.Optional(InstanceId),
  session_id: Type.Optional(SessionId),
  metadata: Type.Optional(Metadata),
  ip_address: Type.Optional(
    Type.String({
      maxLength: 45,
      description: 'IP address that the report is about, as the caller says; default: the address of the client',
    }),
  ),
})
export type NewEvent = Static<typeof NewEvent>

/**
 * The columns of an event, as stored, streamed and listed. `seq` increases without gaps in commit order. Rules, alerts for
 * machines, exports and the dashboard take any column under its name unless they have another place for it.
 */
export const EventRow = Type.Object({
  id: Uuid,
  seq: Type.Integer({ minimum: 1 }),
  severity: Severity,
  source: Type.String(),
  by_service: Type.Boolean({
    description:
      'True when the service itself reported the event; false when a caller did, regardless of its type and source',
  }),
  event_type: Type.String({ description: `With by_service one of ${serviceEventTypes.join(', ')}` }),
  description: Type.String(),
  instance_id: nullable(Type.String()),
  session_id: nullable(Type.String()),
  ip_address: nullable(
    Type.String({ description: 'As reported, where the report names one; else the address of the client' }),
  ),
  observed_ip_address: nullable(Type.String({ description: 'Address of the client, as the service saw it' })),
  metadata: nullable(Metadata),
  created_at: Timestamp,
})
export type EventRow = Static<typeof EventRow>
export type EventColumn = keyof EventRow
export const eventColumns = Object.keys(EventRow.properties) as EventColumn[]

/** Columns for which the dashboard and exports have a place, in the order of CSV files. */
const placedColumns: readonly EventColumn[] = [
  'id',
  'seq',
  'created_at',
  'severity',
  'event_type',
  'instance_id',
  'session_id',
  'source',
  'description',
  'ip_address',
  'metadata',
  'by_service',
  'observed_ip_address',
]
const otherColumns = eventColumns.filter((name) => !placedColumns.includes(name))

/** Columns of CSV files. A new one follows the others, so that these keep their positions. */
export const csvColumns: readonly EventColumn[] = [...placedColumns, ...otherColumns]

/** Returns the other columns of an event, where they are set. */
export const otherFields = (row: Omit<EventRow, 'seq'>): Partial<Record<EventColumn, unknown>> =>
  Object.fromEntries(
    Object.entries(row).filter(([name, value]) => otherColumns.includes(name as EventColumn) && value !== null),
  )

export const EventCreated = Type.Object({ ok: Type.Literal(true), id: Uuid })
export type EventCreated = Static<typeof EventCreated>

export const EventBatchReply = Type.Object({
  ok: Type.Boolean({ description: 'True when every event was stored' }),
  ids: Type.Array(nullable(Uuid), { description: 'One id per event, in order; null for a refused event' }),
  errors: Type.Array(Type.Object({ index: Count, error: Type.String() })),
})
export type EventBatchReply = Static<typeof EventBatchReply>

/** Event filters shared by lists, histograms and facets. */
const eventFilters = {
  severity: Type.Optional(choice(severities)),
  instance_id: Type.Optional(InstanceId),
  session_id: Type.Optional(SessionId),
  event_type: Type.Optional(EventType),
  exclude_type: Type.Optional(
    Pattern('^[a-z0-9_]+(,[a-z0-9_]+)*$', 'must be types of events, separated by commas', {
      maxLength: 10 * limits.eventType,
      description: 'Not these event types, separated by commas',
    }),
  ),
  q: Type.Optional(Type.String({ minLength: 1, maxLength: 200, description: 'Text in source, type or description' })),
  from: Type.Optional(Instant('At or after this ISO 8601 instant')),
  to: Type.Optional(Instant('Before this ISO 8601 instant')),
}

export const EventQuery = Type.Object({
  ...eventFilters,
  after: Type.Optional(Digits('Only events with a higher seq; the order is still newest first')),
  before: Type.Optional(Digits('Cursor: `next` of the previous page')),
  limit: Type.Optional(UpTo(limits.pageSize, `Rows a page, 1 to ${limits.pageSize}; default: 100`)),
})
export type EventQuery = Static<typeof EventQuery>

export const EventList = Type.Object({
  events: Type.Array(EventRow),
  next: nullable(Type.String({ description: 'Pass it as `before` for the next page; null on the last page' })),
  scanned_to: Type.Optional({
    ...Timestamp,
    description:
      'Present when a page is short although more may follow: only events since this instant were compared, so an empty page does not mean that nothing matches',
  }),
})
export type EventList = Static<typeof EventList>

export const SeverityCounts = Type.Object({ critical: Count, warning: Count, info: Count, breach: Count })
export type SeverityCounts = Static<typeof SeverityCounts>

const Scanned = {
  complete: Type.Boolean({
    description: 'Whether every event of the range was looked at; else only the newest ones, down to `scanned_to`',
  }),
  scanned_to: nullable({ ...Timestamp, description: 'The oldest instant that was looked at; null when complete' }),
}

const HistogramQuery = Type.Object({
  ...eventFilters,
  from: Type.Optional(Instant('At or after this ISO 8601 instant; default: a day before `to`')),
  to: Type.Optional(Instant('Before this ISO 8601 instant; default: now')),
  buckets: Type.Optional(
    UpTo(limits.histogramBuckets, `Maximum number of buckets, 1 to ${limits.histogramBuckets}; default: 60`),
  ),
})
export type HistogramQuery = Static<typeof HistogramQuery>

const EventHistogram = Type.Object({
  from: { ...Timestamp, description: 'Start of the first bucket: whole minutes, hours or days of UTC' },
  bucket_seconds: Type.Integer({ minimum: 60 }),
  buckets: Type.Array(SeverityCounts, { description: 'Oldest first; the first and the last are counted whole' }),
  basis: choice(
    ['counts', 'events'],
    'counts: exact and kept longer than the events themselves, where no filter but severity is given and the caller is not limited to a team. events: the events that are stored',
  ),
  ...Scanned,
})
export type EventHistogram = Static<typeof EventHistogram>

const bounds = {
  from: HistogramQuery.properties.from,
  to: HistogramQuery.properties.to,
  buckets: HistogramQuery.properties.buckets,
}
const ToolQuery = Type.Object(bounds)
export type ToolQuery = Static<typeof ToolQuery>

const ToolHistogram = Type.Object({
  from: { ...Timestamp, description: 'Start of the first bucket: whole minutes, hours or days of UTC' },
  bucket_seconds: Type.Integer({ minimum: 60 }),
  tools: Type.Array(
    Type.Object({ tool: choice([...knownTools, 'other']), calls: Type.Array(Count, { description: 'Oldest first' }) }),
    { description: 'Tools without a call in the range are absent; calls of all unknown tools count as other' },
  ),
  scanned_to: Type.Optional({
    ...Timestamp,
    description:
      'Only for a caller limited to a team, whose calls are counted from the events that are stored: present when only those since this instant were counted',
  }),
})
export type ToolHistogram = Static<typeof ToolHistogram>

const FacetQuery = Type.Object(eventFilters)
export type FacetQuery = Static<typeof FacetQuery>

const Facet = (description: string) =>
  Type.Array(Type.Object({ value: Type.String(), count: Count }), { description, maxItems: limits.facetValues })

const EventFacets = Type.Object({
  total: { ...Count, description: 'Matching events that were looked at' },
  severity: Facet('Most frequent first'),
  event_type: Facet(`The ${limits.facetValues} most frequent`),
  source: Facet(`The ${limits.facetValues} most frequent`),
  instance_id: Facet(`The ${limits.facetValues} most frequent; events without an instance are in total only`),
  ...Scanned,
})
export type EventFacets = Static<typeof EventFacets>

const IndexCheckRequest = Type.Object({
  before: Type.Optional(
    Type.Integer({ minimum: 1, description: 'Only events with a lower `seq`: `next` of the last answer' }),
  ),
})

export const IndexCheck = Type.Object({
  checked: Type.Integer({ minimum: 0, description: 'Events checked; at most 10,000' }),
  missing: Type.Integer({ minimum: 0, description: 'Of these, events that the index lacked and that were added' }),
  next: nullable(Type.Integer({ description: '`before` for the next older events; null: there are none' })),
})
export type IndexCheck = Static<typeof IndexCheck>

export const eventEndpoints = {
  createEvent: define({
    method: 'POST',
    path: '/api/events',
    access: access.agents,
    feature: 'events',
    summary: 'Store an event; the answer is sent after the event is on disk',
    body: NewEvent,
    headers: {
      'idempotency-key':
        'The same key from the same caller within 24 hours returns the same id and stores no second row',
    },
    status: 201,
    reply: EventCreated,
    failures: {
      429: 'A quota of the key is exceeded; retry after Retry-After seconds',
      503: 'The queue is full; retry after Retry-After seconds',
    },
  }),
  createEvents: define({
    method: 'POST',
    path: '/api/events/batch',
    access: access.agents,
    feature: 'events',
    summary: 'Store up to 1,000 events; each is stored or refused separately',
    rawBody: {
      contentTypes: ['application/json', 'application/x-ndjson'],
      description: 'A JSON array, or one JSON object a line',
      json: Type.Array(NewEvent, { minItems: 1, maxItems: limits.batchEvents }),
    },
    headers: {
      'idempotency-key':
        'The same key from the same caller within 24 hours returns the same ids and stores no duplicates',
    },
    status: 200,
    reply: EventBatchReply,
    failures: {
      429: 'A quota of the key is exceeded; retry after Retry-After seconds',
      503: 'The queue is full; retry after Retry-After seconds',
    },
  }),
  listEvents: define({
    method: 'GET',
    path: '/api/events',
    access: access.readers,
    teams: 'agents',
    feature: 'events',
    summary: 'List events, newest first',
    query: EventQuery,
    status: 200,
    reply: EventList,
    failures: { 503: 'Too many queued searches and lists; retry after Retry-After seconds' },
  }),
  checkEventIndex: define({
    method: 'POST',
    path: '/api/events/index/check',
    access: access.operators,
    teams: 'refused',
    feature: 'events',
    summary: 'Check the index of events by instance, session and type, newest first, and add what is missing',
    body: IndexCheckRequest,
    status: 200,
    reply: IndexCheck,
    failures: { 503: 'Too many queued searches and lists; retry after Retry-After seconds' },
  }),
  getEventHistogram: define({
    method: 'GET',
    path: '/api/events/histogram',
    access: access.readers,
    teams: 'agents',
    feature: 'events',
    summary: 'Count events by severity over time',
    query: HistogramQuery,
    status: 200,
    reply: EventHistogram,
    failures: { 503: 'Too many queued searches and lists; retry after Retry-After seconds' },
  }),
  getToolHistogram: define({
    method: 'GET',
    path: '/api/events/tools',
    access: access.readers,
    teams: 'agents',
    feature: 'events',
    summary:
      'Count tool calls by tool over time, exact and of the last 40 days; for a caller limited to a team as far as events are read',
    query: ToolQuery,
    status: 200,
    reply: ToolHistogram,
    failures: { 503: 'Too many queued searches and lists; retry after Retry-After seconds' },
  }),
  getEventFacets: define({
    method: 'GET',
    path: '/api/events/facets',
    access: access.readers,
    teams: 'agents',
    feature: 'events',
    summary: 'Count events by severity, type, source and instance',
    query: FacetQuery,
    status: 200,
    reply: EventFacets,
    failures: { 503: 'Too many queued searches and lists; retry after Retry-After seconds' },
  }),
}
