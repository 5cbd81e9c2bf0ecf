import type { Static, TSchema, TStringOptions } from 'typebox'
import { Type } from './type.ts'

/** A string from a closed list, which error messages can name in full. */
export function choice<const Values extends readonly string[]>(values: Values, description?: string) {
  return Type.Unsafe<Values[number]>({ enum: [...values], ...(description ? { description } : {}) })
}

/** A value or null, as a type list, which JSON Schema 2020-12 and OpenAPI 3.1 both support. */
export function nullable<Schema extends TSchema>(schema: Schema) {
  return Type.Unsafe<Static<Schema> | null>(Type.Union([schema, Type.Null()]))
}

/** Lengths count code points, not bytes or UTF-16 units. */
export const limits = {
  instanceId: 64,
  name: 80,
  /** Enough for team, environment, region and purpose; each is shown in a row of the fleet. */
  tags: 20,
  tag: 40,
  keyName: 100,
  reason: 500,
  source: 100,
  eventType: 100,
  description: 1000,
  /** Correlation ids are short; longer ones would only bloat the index. */
  sessionId: 200,
  /** Bytes of JSON: enough for a tool call's redacted arguments. */
  metadataBytes: 16 * 1024,
  /** JSON.stringify fails on very deep values, so nothing deeper may be stored. */
  jsonDepth: 16,
  /** Commas, colons and opening brackets in a body. More than any schema needs, and parsed within milliseconds. */
  jsonSigns: 20_000,
  bodyBytes: 256 * 1024,
  batchBytes: 1024 * 1024,
  batchEvents: 1000,
  /** Bytes of telemetry, before and after inflating: a batch of 512 spans has some 1 MiB. Each request holds as much. */
  otlpBytes: 4 * 1024 * 1024,
  pageSize: 1000,
  /** Above about this many bars, a chart looks like a line. */
  histogramBuckets: 500,
  /** Values of a facet, as a list to choose from. `total` includes the others. */
  facetValues: 20,
  /** Characters of a text filter of the fleet, and of a group's name, which may be several tags. */
  fleetWords: 200,
  /** Different words in it: each is looked for in six texts of every agent. */
  fleetFilterWords: 10,
  fleetGroupName: 2_000,
  /** Parts of the fleet that a strip of marks shows: more could not be distinguished. */
  fleetMarks: 400,
  /** Agents that a dashboard looks up by id: more than a screen can name. */
  fleetKnown: 300,
  /** Agents named, groups of silent agents, groups by tag, and tags in an answer about the fleet; others are counted. */
  fleetNamed: 20,
  fleetSilent: 20,
  fleetGroups: 500,
  fleetTags: 500,
  /** Instances per page with their history: some 600 bytes each, from 25 rows each. */
  historyPage: 200,
  /** Ids in a list's query: a URL of 6.5 kB, which every proxy accepts. */
  listedIds: 100,
  /** Characters of `understands` on a control stream: room for kinds that later versions add. */
  streamedKinds: 200,
  /**
   * Agents that a containment can list by id: as many as fit into a body of 256 KiB. Larger fleets are selected by tag.
   */
  selectedInstances: 5_000,
  /**
   * Tags of a selector, and the ids of each kind listed in a response about a containment; further ones are only
   * counted.
   */
  selectedTags: 20,
  listedMembers: 100,
  /** Agents of one drill. Each is a row until the drill ends; 100 are sent their drill in some ten milliseconds. */
  drillAgents: 20_000,
  /** Agents listed in a drill's report; further ones are only counted. */
  drillMissing: 100,
  /** Stored drills. */
  drills: 100,
  /** Suspensions listed per instance, and the suspensions from which percentiles are computed, in some 20 ms. */
  listedSuspensions: 100,
  measuredSuspensions: 10_000,
  /** Enforcement points, and patterns per point. Each matching point adds a row to the transaction that suspends. */
  enforcementPoints: 20,
  enforcementPatterns: 100,
  /** Saved views per deployment and per key, and characters of a view's query: 1 MiB in total. */
  views: 200,
  viewsOfKey: 50,
  viewQuery: 4096,
  /** Up to this size, GET /api/status lists the whole fleet: about 1 MiB. */
  statusInstances: 5_000,
  /** Instances listed for a larger fleet, and the maximum size in bytes. */
  statusSample: 1_000,
  statusBytes: 1024 * 1024,
  /** Default for the instances that one key may register; a key is rarely meant for more. */
  keyInstances: 1_000,
  maxKeyInstances: 1_000_000,
  /** Patterns of models per key: an agent uses a handful of models. */
  keyModels: 50,
  /** Agents listed of a budget that each agent has, the most used first. */
  budgetAgents: 100,
  /** Only this many of the newest alerts are counted: some 5 ms each time a dashboard reads the counts. */
  countedAlerts: 10_000,
  /** Listed changes per alert. People make a handful; a script that toggles an alert must not fill a page. */
  alertHistory: 50,
  /** Comments on an alert, deleted ones included, so that each is one reply of 200 kB at most, and characters of one. */
  alertComments: 100,
  alertComment: 2_000,
  /** Characters of the note on an agent: a screen that is read before a decision, not a document. */
  agentNote: 2_000,
  /** People and keys that an alert can be assigned to, of each kind: more than an operator searches for a name. */
  assignees: 1_000,
  /** Ten alerts in a channel's longest format are shorter. Searching this much for secrets takes 15 ms. */
  shownContent: 32 * 1024,
  /** Problems listed, and ids per problem: the fleet that a screen shows. */
  problems: 100,
  problemInstances: 10_000,
  /** Types of critical events that one agent has at most before they are one problem: invented types must not fill a list. */
  problemTypes: 5,
  /** Characters of a search, and hits of each kind: more than a person reads before typing another word. */
  searchedText: 100,
  searchHits: 20,
  idempotencyKey: 200,
  decoyPath: 1024,
  label: 1000,
  /** Concurrent ignore rules for decoy hits. Each is an exception that a person must justify. */
  decoyIgnores: 100,
  /** Hits counted per decoy in a list, so that the list is not slow after a storm of hits. */
  listedHits: 1_000,
  /** Instances listed by the brake: more than an operator reads one by one. */
  listedRefusals: 100,
  /**
   * Anomalies listed in a response about baselines, and samples per metric: a week of them at five-minute intervals.
   */
  listedEpisodes: 100,
  listedSamples: 2_000,
  /** Matching takes longer for longer input; callers split longer text. */
  checkedKey: 64 * 1024,
  checkedPath: 4096,
} as const

/**
 * Text that matches a regular expression. `rule` completes a sentence that begins with the field's name. Errors show
 * the rule, never the expression.
 */
export const Pattern = (pattern: string, rule: string, options: TStringOptions = {}) =>
  Type.String({ pattern, 'x-rule': rule, ...options })
/** Text with at least one visible character. */
export const NotBlank = (options: TStringOptions) => Pattern('\\S', 'must not be blank', options)

export const Timestamp = Type.String({ format: 'date-time', description: 'ISO 8601, UTC' })
const isoInstant = '^\\d{4}-\\d{2}-\\d{2}T\\d{2}:\\d{2}:\\d{2}(\\.\\d{1,9})?(Z|[+-]\\d{2}:\\d{2})$'
export const Instant = (description: string) =>
  Pattern(isoInstant, 'must be an ISO 8601 instant', { maxLength: 40, description })
/** A whole number in a query, as text. */
export const Digits = (description: string) => Pattern('^[0-9]{1,15}$', 'must be a whole number', { description })
/** Matches the numbers up to one such as 20, 100 or 500, whose only digit besides zeros is the first. */
function upToPattern(max: number): string {
  const [first, ...zeros] = String(max)
  const shorter = zeros.length > 0 ? `[1-9][0-9]{0,${zeros.length - 1}}|` : ''
  const below = Number(first) > 1 ? `[1-${Number(first) - 1}][0-9]{${zeros.length}}|` : ''
  return `^0*(${shorter}${below}${max})$`
}
/** A number from 1 to `max` in a query, as text. */
export const UpTo = (max: number, description: string) =>
  Pattern(upToPattern(max), `must be from 1 to ${max}`, { maxLength: 15, description })
export const Count = Type.Integer({ minimum: 0 })
export const InstanceId = Pattern('^[a-z0-9_-]+$', 'may contain only lower-case letters, digits, _ and -', {
  maxLength: limits.instanceId,
  description: 'Lower-case letters, digits, _ and -',
  examples: ['support-bot-1'],
})
export const Uuid = Pattern('^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$', 'must be a UUID', {
  description: 'UUID',
})
/** An exact id or a prefix. `*` alone is refused, because it would match every instance. */
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
