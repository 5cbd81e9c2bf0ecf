import type { Static } from 'typebox'
import { NewEvent } from './events.ts'
import { choice, InstanceId, InstancePattern, limits, NotBlank, Pattern, Severity, Uuid } from './fields.ts'
import { Type } from './type.ts'

/** A rule is code that others run on each event: each limit says what the work is that it bounds. */
export const ruleLimits = {
  /** Bytes of a text of rules: a long rule has 4 KiB, and the slowest text of this size is refused within a second. */
  textBytes: 64 * 1024,
  /** Parts of speech of YAML: names, values, brackets, line breaks. Text of 64 KiB could have one for each byte. */
  tokens: 15_000,
  /** Rules of one text: what a correlation and the rules that it names need, many times over. */
  documents: 100,
  /** Levels of lists and maps. The deepest valid place is some ten levels down; the parser recurses. */
  depth: 20,
  title: 256,
  description: 4_000,
  /** Selections of a rule. Each costs a look at every event. */
  selections: 50,
  /** Fields of a selection, and maps of a list of maps. */
  fields: 50,
  /** Values of a field. Plain values are looked up by hash; those with wildcards are compared one by one. */
  values: 1_000,
  valueLength: 1_000,
  /** Levels of a path into metadata, which has no more itself. */
  pathDepth: limits.jsonDepth,
  /** Characters of a condition, and levels of its brackets: more than people read. */
  condition: 1_000,
  conditionDepth: 20,
  /** Selections that the conditions of a rule name, each time counted: `1 of x*` names many. */
  conditionNames: 1_000,
  /** Values of a rule with contains and its like or wildcards: some 20 µs each for a value of 16 KiB. */
  comparedValues: 500,
  /** Characters of the longest parts between two * where values contain ?: they are compared at every place of a text. */
  wildcardSigns: 200,
  /** Regular expressions of a rule: each costs some 0.3 ms for a value of 16 KiB. */
  expressions: 20,
  expressionLength: 500,
  /** Instructions of a compiled expression: what compiling it costs. */
  expressionSize: 500,
  /** Steps in which all states of an expression must be found, for it to read whole values: some 5 ms. */
  expressionSteps: 50_000,
  /** Expressions with more states read these characters of a value: */
  expressionText: 1_000,
  /** those that begin with plain text from each of so many places that have it. */
  expressionPlaces: 50,
  /** They have so many instructions in a rule. Times the characters it is the work for one event, some 5 ms. */
  expressionSizes: 200,
  /** Rules that a correlation counts or orders, and levels of correlations within correlations. */
  correlatedRules: 10,
  correlationDepth: 3,
  groupFields: 5,
  /** A count that a correlation waits for: so many times are kept for each group. */
  count: 10_000,
  /** Seconds of a timespan or cooldown: 90 days, how long events are usually kept. */
  timespanSeconds: 90 * 86_400,
  /** Groups of a rule whose windows are kept, and times or values in all of them: some 100 MiB at worst. */
  groups: 100_000,
  groupEntries: 1_000_000,
  /**
   * Firings of a rule about one instance in a minute of the events: a firing is a row, an event and an alert, and an agent
   * decides how often it makes a rule without cooldown fire. As many as the alerts of one type about an instance.
   */
  minuteFirings: 60,
  responses: 10,
  exceptions: 100,
  /** Cases of each kind, and events of a case. */
  testCases: 50,
  testEvents: 1_000,
  /** Rules of a deployment. Each costs a look at every event of its types. */
  rules: 500,
  /** Versions that an answer lists, newest first. */
  listedVersions: 100,
  /** Events that a firing names: the newest of them. */
  firingEvents: 100,
  /** Hours that an answer about firings counts: 31 days, as bars of a chart. */
  firingHours: 31 * 24,
  /** Hours of a backtest: 90 days, how long events are usually kept. */
  backtestHours: 90 * 24,
  /** Firings that a backtest shows with their events, and characters of a value of group-by: 1 MiB in all is an answer. */
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

const FieldName = Type.String({ minLength: 1, maxLength: 200 })
const Fields = (description: string) =>
  Type.Array(FieldName, { minItems: 1, maxItems: ruleLimits.groupFields, description })

const Threshold = Type.Integer({ minimum: 0, maximum: ruleLimits.count })

export const correlationTypes = ['event_count', 'value_count', 'temporal', 'temporal_ordered', 'new_value'] as const

/** Counts or orders what the detection finds. Times are those of the events, never those of a clock. */
export const RuleCorrelation = Type.Object(
  {
    type: choice(
      correlationTypes,
      'event_count: events of a group; value_count: distinct values of field; temporal: all of rules; temporal_ordered: all of rules in this order; new_value: a value of field that the group has not shown for timespan',
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
    timespan: Duration('How far back a window reaches'),
    condition: Type.Optional(
      Type.Object(
        {
          gt: Type.Optional(Threshold),
          gte: Type.Optional(Threshold),
          lt: Type.Optional(Threshold),
          lte: Type.Optional(Threshold),
          eq: Type.Optional(Threshold),
          field: Type.Optional(Type.Unsafe<string | string[]>({})),
        },
        {
          additionalProperties: false,
          description:
            'The count at which the rule fires. Has a lower bound: a count grows with each event, so lt alone would hold at the first',
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
  timespan: string
  condition?: Partial<Record<'gt' | 'gte' | 'lt' | 'lte' | 'eq', number>> & { field?: string | string[] }
  field?: string | string[]
  learning?: string
}
export type RuleCorrelation = RuleCorrelationShape

const RuleResponse = Type.Object(
  {
    action: choice(
      ['alert', 'suspend', 'suspend_tag', 'call'],
      'alert: a message to the channels; suspend: the instance of the event; suspend_tag: every instance of the tag; call: an enforcement point',
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

const RuleException = Type.Object(
  {
    who: Type.Object(
      {
        instances: Type.Optional(Type.Array(InstancePattern, { minItems: 1, maxItems: 100 })),
        tags: Type.Optional(Type.Array(TagPattern, { minItems: 1, maxItems: 100 })),
      },
      { additionalProperties: false, description: 'Instances by id or prefix, or by a tag; one match is enough' },
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

const { severity, source, event_type, description, session_id, metadata, ip_address } = NewEvent.properties

/** An event of a case. Left out: severity info; source, type, description and instance `test`; all else null. */
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
    instance_id: Type.Optional(InstanceId),
    session_id: Type.Optional(session_id),
    metadata: Type.Optional(metadata),
    ip_address: Type.Optional(ip_address),
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

/** A rule as people write it, in YAML or JSON. The grammar of `detection` and `correlation` is that of Sigma. */
export const RuleDocument = Type.Object(
  {
    title: NotBlank({ minLength: 1, maxLength: ruleLimits.title, description: 'For people' }),
    id: Type.Optional(Uuid),
    description: Type.Optional(Type.String({ maxLength: ruleLimits.description })),
    mode: Type.Optional(choice(ruleModes, `${modeText}. Default: observe`)),
    severity: Severity,
    detection: Type.Unsafe<Record<string, unknown> & { condition?: string }>({
      type: 'object',
      properties: { condition: Type.String({ minLength: 1, maxLength: ruleLimits.condition }) },
      description:
        'Selections by name, each a map of `field|modifier: value` (all must match) or a list of such maps (one must), and `condition`, which joins them. May lack `condition` where correlation.rules is given',
    }),
    correlation: Type.Optional(RuleCorrelation),
    response: Type.Optional(Type.Array(RuleResponse, { minItems: 1, maxItems: ruleLimits.responses })),
    cooldown: Type.Optional(
      Duration(
        'After a firing the same group does not fire again for this long. Default: the timespan of the correlation, or none; the group of a rule without correlation is the instance',
      ),
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
