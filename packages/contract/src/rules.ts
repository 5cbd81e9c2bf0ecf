import type { Static } from 'typebox'
import { NewEvent } from './events.ts'
import { choice, InstancePattern, limits, NotBlank, Pattern, Severity, Uuid } from './fields.ts'
import { Type } from './type.ts'

/** A rule is code that runs on each event, so each limit states the work that it bounds. */
export const ruleLimits = {
  /** Bytes of a rule file: a long rule has 4 KiB, and the slowest text of this size is refused within a second. */
  textBytes: 64 * 1024,
  /** YAML tokens: names, values, brackets, line breaks. A text of 64 KiB could have one per byte. */
  tokens: 15_000,
  /** Rules per file: many times what a correlation and the rules that it names need. */
  documents: 100,
  /** Nesting of lists and maps. The deepest valid value is some ten levels down; the parser recurses. */
  depth: 20,
  title: 256,
  description: 4_000,
  /** Tags, and known causes of false alarms: more than people read. */
  tags: 50,
  falsePositives: 20,
  /** Selections per rule. Each is evaluated for every event. */
  selections: 50,
  /** Fields per selection, and maps per list of maps. */
  fields: 50,
  /** Values per field. Plain values are looked up by hash; those with wildcards are compared one by one. */
  values: 3_000,
  valueLength: 1_000,
  /** Levels of a path into metadata: metadata itself cannot be deeper. */
  pathDepth: limits.jsonDepth,
  /** Characters of a condition and nesting of its brackets: more than people can read. */
  condition: 1_000,
  conditionDepth: 20,
  /** Selections named by a rule's conditions, each mention counted: `1 of x*` names many. */
  conditionNames: 1_000,
  /** Values per rule with wildcards, or with contains and similar modifiers: some 16 µs each for a value of 16 KiB. */
  comparedValues: 2_000,
  /**
   * Total characters of the longest parts between two `*` in values that contain `?`, which are compared at every
   * position of a text.
   */
  wildcardSigns: 500,
  /** Characters of a regular expression: the longest of published rules have 2,000. */
  expressionLength: 4_000,
  /** Passes of an expression over a text, 0.7 µs each for 16 KiB: rules cannot yield within an expression. */
  expressionPasses: 3_000,
  /** Milliseconds that the regular expressions of a rule together may cost the costliest event of 16 KiB. */
  expressionMs: 5,
  /** Rules per correlation, and nesting of correlations. */
  correlatedRules: 10,
  correlationDepth: 3,
  groupFields: 5,
  /** Count that a correlation can wait for; this many times are kept per group. */
  count: 10_000,
  /** Numbers of a group's window that value_sum and similar keep, the newest: adding them up takes 10 µs. */
  figures: 10_000,
  /** A sum of so many of them is still exact. */
  figure: 1e11,
  /** Firings per event that ends the windows of many groups: some 20 ms of one transaction. Further ones are counted. */
  endedWindows: 500,
  /** Seconds of a timespan or cooldown: 90 days, the usual retention of events. */
  timespanSeconds: 90 * 86_400,
  /**
   * Bytes of the windows of a rule, and as many of what its new_value knows: room for some 80,000 groups, 200,000 values or
   * millions of events. Less where the heap of the process is below 768 MiB. All rules of a process together have a quarter
   * of its heap.
   */
  stateBytes: 48 * 1024 ** 2,
  /** Instances whose firings of a minute a rule counts, and that a backtest counts: some 15 MiB at worst. */
  firingInstances: 100_000,
  /**
   * Values that new_value keeps per rule at most of those that one instance alone showed; fewer of long texts or in many
   * groups. An agent can invent values: this is ten times what an agent shows, and twenty such agents have room.
   */
  instanceValues: 10_000,
  /** Values per event that new_value stores per rule: they are rows of the database, and metadata has room for 4,000. */
  eventValues: 100,
  /**
   * Firings per rule, instance and minute of event time. A firing is a row, an event and an alert, and an agent decides
   * how often it makes a rule without cooldown fire. Equals the limit of alerts of one type per instance.
   */
  minuteFirings: 60,
  responses: 10,
  exceptions: 100,
  /** Cases per kind, and events per case. */
  testCases: 50,
  testEvents: 1_000,
  /** Rules per deployment. Each is evaluated for every event of its types. */
  rules: 500,
  /**
   * Milliseconds that all rules of a deployment together may cost the costliest event of 16 KiB. 20 such events a second
   * then take the time of one core. Usual events cost less than a hundredth of it.
   */
  eventMs: 50,
  /** Listed versions, newest first. */
  listedVersions: 100,
  /** Listed events per firing: the newest. */
  firingEvents: 100,
  /** Events explained per firing: each costs some ten times what the rule costs an event. */
  explainedEvents: 10,
  /** Hours counted in a response about firings: 31 days, as the bars of a chart. */
  firingHours: 31 * 24,
  /** Hours of a backtest: 90 days, the usual retention of events. */
  backtestHours: 90 * 24,
  /** Firings shown with their events in a backtest, and characters of a group-by value: 1 MiB per response. */
  backtestSamples: 50,
  backtestValueLength: 200,
} as const

const Duration = (description: string) =>
  Pattern('^[1-9][0-9]{0,6}[smhd]$', 'must be a whole number followed by s, m, h or d, such as 15m', {
    maxLength: 8,
    description: `${description}: a whole number of seconds (s), minutes (m), hours (h) or days (d), at most 90 days`,
  })

export const ruleModes = ['observe', 'alert', 'enforce'] as const
export type RuleMode = (typeof ruleModes)[number]
export const modeText =
  'observe: firings are recorded; alert: and alerts are sent; enforce: and the other responses are made'

const Tag = Pattern('^[a-z0-9_.:-]+$', 'must be a tag', { maxLength: limits.tag })
const TagPattern = Pattern('^[a-z0-9_.:-]+\\*?$', 'must be a tag, or a prefix followed by *', {
  maxLength: limits.tag + 1,
})

/** Of a rule, not of an instance: a namespace and a name, as in Sigma. */
const RuleTag = Pattern('^[a-z0-9_-]+\\.[a-z0-9._-]+$', 'must be a namespace and a name, such as owasp.asi02', {
  maxLength: 100,
})
const FieldName = Type.String({ minLength: 1, maxLength: 200 })
const Fields = (description: string) =>
  Type.Array(FieldName, { minItems: 1, maxItems: ruleLimits.groupFields, description })

/** Of a figure any number, of a count a whole one. */
const Threshold = Type.Number({ minimum: -ruleLimits.figure, maximum: ruleLimits.figure })

export const correlationTypes = [
  'event_count',
  'value_count',
  'value_sum',
  'value_avg',
  'value_percentile',
  'temporal',
  'temporal_ordered',
  'new_value',
  'not_preceded',
] as const

/** Counts or orders matching events. It uses the times of events, never a clock. */
export const RuleCorrelation = Type.Object(
  {
    type: choice(
      correlationTypes,
      'event_count: events of a group; value_count: distinct values of field; value_sum, value_avg, value_percentile: sum, average and percentile of the numbers in field; temporal: all of rules; temporal_ordered: all of rules in this order; new_value: a value of field that the group has not shown for timespan; not_preceded: the first of two rules without the second in the timespan before it',
    ),
    rules: Type.Optional(
      Type.Array(Type.Unsafe<string | { correlation: RuleCorrelationShape }>({}), {
        minItems: 1,
        maxItems: ruleLimits.correlatedRules,
        description:
          'Each a condition over the selections, such as `call and not allowed`, or `{ correlation: … }`. Default: the condition of the detection',
      }),
    ),
    'group-by': Type.Optional(
      Fields('Fields whose values make a group; events that lack one of them are not counted. Default: one group'),
    ),
    aliases: Type.Optional(
      Type.Unsafe<Record<string, Record<string, string>>>({
        type: 'object',
        maxProperties: ruleLimits.groupFields,
        additionalProperties: {
          type: 'object',
          maxProperties: ruleLimits.correlatedRules,
          additionalProperties: { type: 'string', minLength: 1, maxLength: 200 },
        },
        description:
          'Names for group-by that stand for another field in each of rules: `{ name: { <rule>: <field> } }`',
      }),
    ),
    timespan: Duration('How far back a window reaches'),
    condition: Type.Optional(
      Type.Object(
        {
          gt: Type.Optional(Threshold),
          gte: Type.Optional(Threshold),
          lt: Type.Optional(Threshold),
          lte: Type.Optional(Threshold),
          eq: Type.Optional(Threshold),
          neq: Type.Optional(Threshold),
          field: Type.Optional(Type.Unsafe<string | string[]>({})),
          percentile: Type.Optional(
            Type.Number({
              minimum: 0,
              maximum: 100,
              description: 'value_percentile alone, which needs it; 50 is the median',
            }),
          ),
        },
        {
          additionalProperties: false,
          description:
            'The count or figure at which the rule fires. An event_count with lt or lte alone is judged once its timespan has passed since an event; other counts need a lower bound, since they grow with each event',
        },
      ),
    ),
    field: Type.Optional(
      Type.Unsafe<string | string[]>({
        description: 'The field whose values are counted, or several whose values count together',
      }),
    ),
    learning: Type.Optional(
      Duration('new_value alone. A group that was first seen less than this ago has no new values; default: 1d'),
    ),
  },
  { additionalProperties: false },
)
interface RuleCorrelationShape {
  type: (typeof correlationTypes)[number]
  rules?: (string | { correlation: RuleCorrelationShape })[]
  'group-by'?: string[]
  aliases?: Record<string, Record<string, string>>
  timespan: string
  condition?: Partial<Record<'gt' | 'gte' | 'lt' | 'lte' | 'eq' | 'neq' | 'percentile', number>> & {
    field?: string | string[]
  }
  field?: string | string[]
  learning?: string
}
export type RuleCorrelation = RuleCorrelationShape

const RuleResponse = Type.Object(
  {
    action: choice(
      ['alert', 'suspend', 'suspend_tag', 'call'],
      'alert: a message to the channels; suspend: the instance of the event; suspend_tag: every instance to which operators or its key gave the tag; call: an enforcement point',
    ),
    for: Type.Optional(Duration('How long a suspension lasts. Default: until a person resumes')),
    channel: Type.Optional(
      Type.String({ minLength: 1, maxLength: limits.name, description: 'Name of an alert channel; default: all' }),
    ),
    tag: Type.Optional({ ...Tag, description: 'suspend_tag alone, which needs it' }),
    point: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: limits.tag,
        description: 'Enforcement point; call alone, which needs it',
      }),
    ),
  },
  { additionalProperties: false },
)

export const RuleException = Type.Object(
  {
    who: Type.Object(
      {
        instances: Type.Optional(Type.Array(InstancePattern, { minItems: 1, maxItems: 100 })),
        tags: Type.Optional(Type.Array(TagPattern, { minItems: 1, maxItems: 100 })),
      },
      {
        additionalProperties: false,
        description: 'Instances by id or prefix, or by a tag that operators or keys gave; one match is enough',
      },
    ),
    reason: NotBlank({ maxLength: limits.reason }),
    until: Pattern(
      '^\\d{4}-\\d{2}-\\d{2}(T\\d{2}:\\d{2}(:\\d{2}(\\.\\d{1,3})?)?Z)?$',
      'must be a day or an ISO 8601 instant of UTC',
      { maxLength: 30, description: 'Events before this day or instant (UTC) are passed over by the rule' },
    ),
  },
  { additionalProperties: false },
)

const { severity, source, event_type, description, ...optionalFields } = NewEvent.properties

/**
 * An event of a test case. Defaults: severity info; `test` as source, type, description and instance; null for all
 * else.
 */
const RuleTestEvent = Type.Object(
  {
    after: Type.Optional(
      Pattern('^[0-9]{1,7}[smhd]$', 'must be a whole number followed by s, m, h or d, such as 15m', {
        maxLength: 8,
        description: 'Time since the previous event of the case; default: 0s',
      }),
    ),
    severity: Type.Optional(severity),
    source: Type.Optional(source),
    by_service: Type.Optional(Type.Boolean()),
    event_type: Type.Optional(event_type),
    description: Type.Optional(description),
    ...optionalFields,
    ip_address: Type.Optional({ ...optionalFields.ip_address, description: 'IP address that the service saw' }),
    reported_ip_address: Type.Optional({
      ...optionalFields.ip_address,
      description: 'IP address that the report names; default: ip_address',
    }),
    tags: Type.Optional(Type.Array(Tag, { maxItems: 2 * limits.tags, description: 'Tags of the instance' })),
  },
  { additionalProperties: false },
)
export type RuleTestEvent = Static<typeof RuleTestEvent>

const Cases = (text: string) =>
  Type.Array(Type.Array(RuleTestEvent, { minItems: 1, maxItems: ruleLimits.testEvents }), {
    minItems: 1,
    maxItems: ruleLimits.testCases,
    description: text,
  })

/** A rule as written by people, in YAML or JSON. `detection` and `correlation` use the grammar of Sigma. */
export const RuleDocument = Type.Object(
  {
    title: NotBlank({ minLength: 1, maxLength: ruleLimits.title, description: 'For people' }),
    id: Type.Optional(Uuid),
    description: Type.Optional(Type.String({ maxLength: ruleLimits.description })),
    tags: Type.Optional(
      Type.Array(RuleTag, {
        maxItems: ruleLimits.tags,
        description: 'As in Sigma, such as owasp.asi02; the rules with the tag pack.<name> are a pack',
      }),
    ),
    falsepositives: Type.Optional(
      Type.Array(Type.String({ minLength: 1, maxLength: ruleLimits.description }), {
        maxItems: ruleLimits.falsePositives,
        description: 'What makes the rule fire although nothing is wrong',
      }),
    ),
    mode: Type.Optional(choice(ruleModes, `${modeText}. Default: observe`)),
    severity: Severity,
    timezone: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 64,
        description:
          'Time zone of the modifiers minute, hour, day, week, weekday, month and year, such as Europe/Berlin. Default: UTC',
      }),
    ),
    detection: Type.Unsafe<Record<string, unknown> & { condition?: string }>({
      type: 'object',
      properties: { condition: Type.String({ minLength: 1, maxLength: ruleLimits.condition }) },
      description:
        'Selections by name, each a map of `field|modifier: value` (all must match) or a list of such maps (one must), and `condition`, which joins them. May lack `condition` where correlation.rules is given',
    }),
    correlation: Type.Optional(RuleCorrelation),
    response: Type.Optional(Type.Array(RuleResponse, { minItems: 1, maxItems: ruleLimits.responses })),
    cooldown: Type.Optional(
      Pattern('^(0s|[1-9][0-9]{0,6}[smhd])$', 'must be 0s, or a whole number followed by s, m, h or d, such as 15m', {
        maxLength: 8,
        description:
          'After a firing the same group does not fire again for this long; 0s: no cooldown. Default: the timespan of the correlation; 0s without one and for new_value. The group of a rule without correlation is the instance',
      }),
    ),
    exceptions: Type.Optional(Type.Array(RuleException, { maxItems: ruleLimits.exceptions })),
    tests: Type.Optional(
      Type.Object(
        {
          match: Cases('Each a list of events in which the rule must fire'),
          no_match: Cases('Each a list of events in which the rule must not fire'),
        },
        { additionalProperties: false },
      ),
    ),
  },
  { additionalProperties: false },
)
export type RuleDocument = Omit<Static<typeof RuleDocument>, 'correlation'> & { correlation?: RuleCorrelation }
