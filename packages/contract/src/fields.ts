import type { Static, TSchema, TStringOptions } from 'typebox'
import { Type } from './type.ts'

/** A string out of a closed list; an error message can name the whole list. */
export function choice<const Values extends readonly string[]>(values: Values, description?: string) {
  return Type.Unsafe<Values[number]>({ enum: [...values], ...(description ? { description } : {}) })
}

/** A value or null. Written as a type list, which JSON Schema 2020-12 and OpenAPI 3.1 both know. */
export function nullable<Schema extends TSchema>(schema: Schema) {
  return Type.Unsafe<Static<Schema> | null>(Type.Union([schema, Type.Null()]))
}

/** Lengths count code points, not bytes or UTF-16 units. */
export const limits = {
  instanceId: 64,
  name: 80,
  /** Enough to say team, environment, region and purpose; each is shown in a row of the fleet. */
  tags: 20,
  tag: 40,
  keyName: 100,
  reason: 500,
  source: 100,
  eventType: 100,
  description: 1000,
  /** Correlation ids are short; more would only bloat the index. */
  sessionId: 200,
  /** Bytes of JSON: enough for a tool call's redacted arguments. */
  metadataBytes: 16 * 1024,
  /** JSON.stringify fails on very deep values, so nothing deeper may be stored. */
  jsonDepth: 16,
  /** Commas, colons and opening brackets of a body: more than any schema has room for, parsed within milliseconds. */
  jsonSigns: 20_000,
  bodyBytes: 256 * 1024,
  batchBytes: 1024 * 1024,
  batchEvents: 1000,
  pageSize: 1000,
  /** A chart shows about this many bars; more are read as a line. */
  histogramBuckets: 500,
  /** Values of a facet: a list to choose from. The others are in `total`. */
  facetValues: 20,
  /** Instances of a page of GET /api/fleet, which is made once for all who ask, and the bytes at which it ends early. */
  fleetPage: 10_000,
  fleetBytes: 8 * 1024 * 1024,
  /** Instances of a page with their history: some 600 bytes each, from 25 rows each. */
  historyPage: 200,
  /** Instances that a list names: a URL of 6.5 kB, which every proxy accepts. */
  listedIds: 100,
  /** Characters of what a client of a control stream understands: room for kinds that later versions add. */
  streamedKinds: 200,
  /** Agents that a containment names one by one: what a body of 256 KiB holds. A larger fleet is selected by tag. */
  containmentInstances: 5_000,
  /** Tags of a selector, and ids that an answer about a containment lists of each kind; the others are counted. */
  containmentTags: 20,
  listedMembers: 100,
  /** Agents of one drill: each is a row until it ends, and 100 are asked in some ten milliseconds. */
  drillAgents: 20_000,
  /** Agents that the report of a drill names; the others are counted. */
  drillMissing: 100,
  /** Drills that are kept. */
  drills: 100,
  /** Suspensions of an instance that a list shows, and of all that percentiles are computed from: some 20 ms. */
  listedSuspensions: 100,
  measuredSuspensions: 10_000,
  /** Enforcement points, and patterns of each: a call of every matching point is a row of the transaction that suspends. */
  enforcementPoints: 20,
  enforcementPatterns: 100,
  /** Saved views of a deployment and of one key, and characters of a query: 1 MiB in all. */
  views: 200,
  viewsOfKey: 50,
  viewQuery: 4096,
  /** GET /api/status lists a fleet of this size whole: about 1 MiB. */
  statusInstances: 5_000,
  /** Of a larger fleet it lists this many, and at most this many bytes. */
  statusSample: 1_000,
  statusBytes: 1024 * 1024,
  /** Instances that one key may register; a key is rarely meant for more agents. */
  keyInstances: 1_000,
  maxKeyInstances: 1_000_000,
  /** The newest alerts that are counted: some 5 ms each time a dashboard asks. */
  countedAlerts: 10_000,
  /** Changes of one alert: people make a handful, a script that flips it must not fill a page. */
  alertHistory: 50,
  /** Ten alerts in the longest form of a channel take less; 15 ms are spent on looking for secrets in it. */
  shownContent: 32 * 1024,
  idempotencyKey: 200,
  decoyPath: 1024,
  label: 1000,
  /** Ignore rules for decoy hits at a time: each is an exception that a person answers for. */
  decoyIgnores: 100,
  /** Hits of one decoy that a list counts: the list must not take longer after a storm of hits. */
  listedHits: 1_000,
  /** Instances that the brake names: more than an operator reads one by one. */
  listedRefusals: 100,
  /** Anomalies that an answer about baselines lists, and samples of a metric: a week of them at five minutes. */
  listedEpisodes: 100,
  listedSamples: 2_000,
  /** Matching work grows with the input; longer text is cut by the caller into parts. */
  checkedKey: 64 * 1024,
  checkedPath: 4096,
} as const

/**
 * Text by a regular expression. `rule` says what it asks for, in words that follow the name of the field: errors show
 * the rule, never the expression.
 */
export const Pattern = (pattern: string, rule: string, options: TStringOptions = {}) =>
  Type.String({ pattern, 'x-rule': rule, ...options })
/** Text with at least one visible character. */
export const NotBlank = (options: TStringOptions) => Pattern('\\S', 'must not be blank', options)

export const Timestamp = Type.String({ format: 'date-time', description: 'ISO 8601, UTC' })
const isoInstant = '^\\d{4}-\\d{2}-\\d{2}T\\d{2}:\\d{2}:\\d{2}(\\.\\d{1,9})?(Z|[+-]\\d{2}:\\d{2})$'
/** An ISO 8601 instant in a query. */
export const Instant = (description: string) =>
  Pattern(isoInstant, 'must be an ISO 8601 instant', { maxLength: 40, description })
/** A whole number in a query, as text. */
export const Digits = (description: string) => Pattern('^[0-9]{1,15}$', 'must be a whole number', { description })
export const Count = Type.Integer({ minimum: 0 })
export const InstanceId = Pattern('^[a-z0-9_-]+$', 'may contain only lower-case letters, digits, _ and -', {
  maxLength: limits.instanceId,
  description: 'Lower-case letters, digits, _ and -',
  examples: ['support-bot-1'],
})
export const Uuid = Pattern('^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$', 'must be a UUID', {
  description: 'UUID',
})
/** An exact id or a prefix; not * alone, which would be every instance. */
export const InstancePattern = Pattern(
  '^[a-z0-9_-]+\\*?$',
  'must be an instance id, or a prefix followed by *; * alone is refused',
  { maxLength: limits.instanceId + 1, description: 'An instance id, or a prefix followed by *' },
)
export const InstanceParams = Type.Object({ instanceId: InstanceId })

export const severities = ['info', 'warning', 'critical', 'breach'] as const
export const Severity = choice(severities)
export type Severity = (typeof severities)[number]

export const Ok = Type.Object({ ok: Type.Literal(true) })
export const ErrorReply = Type.Object({ error: Type.String({ description: 'One plain sentence' }) })
