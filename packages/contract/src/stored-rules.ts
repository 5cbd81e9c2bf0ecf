import type { Static } from 'typebox'
import { access, define } from './endpoint.ts'
import { Count, choice, Digits, Instant, nullable, Ok, Pattern, Severity, Timestamp, UpTo, Uuid } from './fields.ts'
import { GivenLists } from './rule-lists.ts'
import { modeText, type RuleDocument, ruleLimits, ruleModes } from './rules.ts'
import { Type } from './type.ts'

/** A rule in a request: the document, or its text in YAML or JSON. */
const GivenRule = Type.Unsafe<RuleDocument | string>({
  anyOf: [{ type: 'object' }, { type: 'string', minLength: 1, maxLength: ruleLimits.textBytes }],
  description: 'A rule document, or its text in YAML or JSON',
})
/** The document itself, or its text if its comments and line numbers matter. */
const RuleBody = Type.Unsafe<RuleDocument | { rule: RuleDocument | string }>({
  type: 'object',
  minProperties: 1,
  description: 'A rule document (see docs/guide/rules.md), or { "rule": "<its text in YAML or JSON>" }',
})

export const RuleParams = Type.Object({ id: Uuid })
const Mode = choice(ruleModes, modeText)
export const RuleVersion = Type.Integer({ minimum: 1, description: 'Grows by one with each change of the document' })
const RuleStored = Type.Object({ id: Uuid, version: RuleVersion, mode: Mode })
export type RuleStored = Static<typeof RuleStored>

const PackModeBody = Type.Object(
  {
    pack: Pattern('^[a-z0-9._-]+$', 'must be the name of a pack, such as coding-agents', {
      maxLength: 95,
      description: 'All rules with the tag `pack.<name>`',
    }),
    mode: Mode,
  },
  { additionalProperties: false },
)
const packRule = { id: Uuid, title: Type.String() }
const PackModeSet = Type.Object({
  mode: Mode,
  changed: Type.Array(Type.Object(packRule), { maxItems: ruleLimits.rules }),
  unchanged: { ...Count, description: 'Rules that were in this mode before' },
  refused: Type.Array(Type.Object({ ...packRule, file: Type.String() }), {
    maxItems: ruleLimits.rules,
    description: 'Rules that are read from a file and keep their mode: change the file',
  }),
})
export type PackModeSet = Static<typeof PackModeSet>

const ruleSummary = {
  id: Uuid,
  title: Type.String(),
  severity: Severity,
  mode: Mode,
  version: RuleVersion,
  file: nullable(
    Type.String({ description: 'File of WARDLINE_RULES_DIR that it is read from; null = stored by this interface' }),
  ),
  responses: Type.Array(Type.String(), { description: 'Actions of its responses, such as alert and suspend' }),
  tags: Type.Array(Type.String(), { description: 'Such as pack.coding-agents and owasp.asi02' }),
  created_at: Timestamp,
  changed_at: Timestamp,
  changed_by: nullable(Type.String({ description: 'Name of the key that changed it last; null for a file' })),
  firings_24h: { ...Count, description: 'Firings of the last 24 hours' },
  firings_7d: { ...Count, description: 'Firings of the last 7 days' },
  suppressed_24h: {
    ...Count,
    description: `Firings of the last 24 hours that were counted, not stored: beyond ${ruleLimits.minuteFirings} about one instance in a minute`,
  },
  recent_hours: Type.Array(Count, {
    description: 'Firings of each of the last 24 hours, oldest first; the last is the present hour',
  }),
  last_fired_at: nullable(Timestamp),
}
const RuleSummary = Type.Object(ruleSummary)

/** A file of a folder of rules or policies that does not take effect. */
export const DocumentFileFault = Type.Object({
  file: Type.String({ description: 'Name of the file in its folder' }),
  error: Type.String({ description: 'What is wrong with it, with line and column' }),
})
export type DocumentFileFault = Static<typeof DocumentFileFault>

const RuleRunnerState = Type.Object({
  seq: { ...Count, description: 'The rules have processed every event up to this seq' },
  lag_events: { ...Count, description: 'Stored events that the rules have not processed yet' },
})

const RuleList = Type.Object({
  rules: Type.Array(RuleSummary, { maxItems: ruleLimits.rules, description: 'By title' }),
  file_faults: Type.Array(DocumentFileFault, { description: 'Files of WARDLINE_RULES_DIR that are not run' }),
  runner: RuleRunnerState,
})
export type RuleList = Static<typeof RuleList>

const RuleView = Type.Object({
  ...ruleSummary,
  document: Type.Unsafe<RuleDocument>({ type: 'object' }),
  text: Type.String({ description: 'As it was sent' }),
  format: choice(['yaml', 'json']),
  lists: Type.Optional(Type.Array(Type.String(), { description: 'Names of the lists that the text uses' })),
  versions: Type.Array(
    Type.Object({
      version: RuleVersion,
      created_at: Timestamp,
      created_by: nullable(Type.String({ description: 'Name of the key; null for a file' })),
    }),
    { maxItems: ruleLimits.listedVersions, description: 'Newest first' },
  ),
})
export type RuleView = Static<typeof RuleView>

/**
 * A fault of a rule or policy. Also used in the 400 response to one that cannot be read or fails its tests, as `faults`
 * beside `error`.
 */
export const DocumentFault = Type.Object({
  line: Type.Integer({ minimum: 1 }),
  column: Type.Integer({ minimum: 1 }),
  sentence: Type.String(),
})

const RuleTested = Type.Object({
  title: Type.String(),
  passed: { ...Count, description: 'Cases that passed' },
  failed: Type.Array(DocumentFault, { description: 'Cases that failed, with the place in the text and the reason' }),
  notes: Type.Array(DocumentFault, { description: 'Probable mistakes in a valid rule, with the place in the text' }),
})
export type RuleTested = Static<typeof RuleTested>

const responseResults = ['done', 'pending', 'skipped', 'refused', 'failed'] as const
const FiringResponse = Type.Object({
  action: choice(['alert', 'suspend', 'suspend_tag', 'call']),
  target: nullable(Type.String({ description: 'Channel, instance, tag or enforcement point; null = all channels' })),
  result: choice(
    responseResults,
    'pending: is being made; skipped: nothing had to be done; refused: by the brake of automatic suspensions',
  ),
  detail: nullable(Type.String({ description: 'Why, where it was not done' })),
})

const RuleFiring = Type.Object({
  seq: Type.Integer({ minimum: 1, description: 'Of the event that completed it: with the rule it names the firing' }),
  event_id: { ...Uuid, description: 'Of the event that completed it' },
  at: { ...Timestamp, description: 'Time of that event' },
  version: RuleVersion,
  mode: Mode,
  group: Type.Array(Type.String(), { description: 'Values of group-by; without correlation the instance' }),
  instance_id: nullable(Type.String({ description: 'Instance of that event' })),
  count: { ...Count, description: 'Events, values or rules that were counted' },
  events: Type.Array(Type.Object({ seq: Type.Integer(), id: Uuid }), {
    maxItems: ruleLimits.firingEvents,
    description: 'Events that made it, oldest first: the newest 100; without those that retention removed before',
  }),
  matched_event_id: { ...Uuid, description: 'The rule_matched event' },
  responses: Type.Array(FiringResponse, { description: 'Empty in mode observe' }),
})

const RuleFirings = Type.Object({
  firings: Type.Array(RuleFiring, { description: 'Newest first' }),
  next_before: nullable(Type.Integer({ description: 'Pass as `before` for the next page; null on the last page' })),
  hours: Type.Array(Type.Object({ hour: Timestamp, count: Count, suppressed: Count }), {
    maxItems: ruleLimits.firingHours,
    description:
      'Firings by hour from `from` to `to`, oldest first, without hours that have none; `suppressed` were counted, not stored: 0 for a caller limited to a team',
  }),
})
export type RuleFirings = Static<typeof RuleFirings>

const backtestSpan = `at most ${ruleLimits.backtestHours / 24} days`
const BacktestBody = Type.Object(
  {
    rule: Type.Optional(GivenRule),
    id: Type.Optional({ ...Uuid, description: 'A stored rule, instead of `rule`' }),
    from: Instant('Firings since then; once old events are deleted, not before the oldest that is stored'),
    lists: Type.Optional({ ...GivenLists, description: 'Entries by name of a list, instead of those stored' }),
    to: Type.Optional(Instant(`Firings before then, ${backtestSpan} after \`from\`; default: now`)),
  },
  { additionalProperties: false },
)
export type BacktestBody = Static<typeof BacktestBody>

const BacktestSample = Type.Object({
  seq: RuleFiring.properties.seq,
  event_id: RuleFiring.properties.event_id,
  at: RuleFiring.properties.at,
  group: {
    ...RuleFiring.properties.group,
    description: `Values of group-by, cut after ${ruleLimits.backtestValueLength} characters; without correlation the instance`,
  },
  instance_id: RuleFiring.properties.instance_id,
  count: RuleFiring.properties.count,
  events: RuleFiring.properties.events,
})

const RuleBacktest = Type.Object({
  from: Timestamp,
  to: Timestamp,
  data_from: Type.Optional(
    nullable({
      ...Timestamp,
      description: 'Where the stored events of the range begin: later than `from` if none is as old; null without any',
    }),
  ),
  firings: { ...Count, description: 'How often the rule would have fired' },
  suppressed: {
    ...Count,
    description: `Firings that would have been counted, not stored: beyond ${ruleLimits.minuteFirings} about one instance in a minute`,
  },
  instances: { ...Count, description: `Instances of these firings; at most ${ruleLimits.firingInstances} are counted` },
  suspensions: {
    ...Count,
    description:
      'Instances that its responses would have suspended in mode enforce, each counted once. The brake of automatic suspensions is not simulated',
  },
  events_read: { ...Count, description: 'Events that were read, with those before `from` that the rule looks back at' },
  evicted: {
    ...Count,
    description: 'Groups and values forgotten to limit memory; above 0, the firings may differ from live ones',
  },
  duration_ms: Count,
  samples: Type.Array(BacktestSample, {
    maxItems: ruleLimits.backtestSamples,
    description: `The newest ${ruleLimits.backtestSamples} firings, newest first`,
  }),
  hours: Type.Array(Type.Object({ hour: Timestamp, count: Count }), {
    maxItems: ruleLimits.backtestHours + 1,
    description: 'Firings by hour, oldest first, without hours that have none',
  }),
})
export type RuleBacktest = Static<typeof RuleBacktest>

/**
 * A line of an application/x-ndjson response: the progress of the backtest, and finally its result or the error that
 * ended it.
 */
export type BacktestLine =
  | { progress: { events_read: number; percent: number } }
  | { result: RuleBacktest }
  | { error: string; code: string }

const FiringQuery = Type.Object(
  {
    limit: Type.Optional(UpTo(200, 'Firings of a page, 1 to 200; default: 50')),
    before: Type.Optional(Digits('Only firings with a lower seq')),
    from: Type.Optional(Instant('Firings since then; default: 7 days before `to`')),
    to: Type.Optional(Instant('Firings before then; default: now')),
  },
  { additionalProperties: false },
)

const invalidRule =
  'The rule does not compile or fails its tests: the first fault with line and column; all in `faults`'
const fileRule = 'Unknown rule'

export const ruleEndpoints = {
  createRule: define({
    method: 'POST',
    path: '/api/rules',
    access: access.operators,
    teams: 'refused',
    feature: 'rules',
    summary: `Store a rule, at most ${ruleLimits.rules}. Its tests are run first; modes alert and enforce need tests`,
    body: RuleBody,
    yaml: 'rule',
    status: 201,
    reply: RuleStored,
    failures: { 400: invalidRule, 409: 'A rule with this id exists' },
  }),
  listRules: define({
    method: 'GET',
    path: '/api/rules',
    access: access.readers,
    teams: 'agents',
    feature: 'rules',
    summary:
      'List the rules with their firings of the last 24 hours and 7 days; for a caller limited to a team, the stored firings of these days about its agents',
    status: 200,
    reply: RuleList,
  }),
  getRule: define({
    method: 'GET',
    path: '/api/rules/:id',
    access: access.readers,
    teams: 'agents',
    feature: 'rules',
    summary: 'Get a rule, its text and its versions',
    params: RuleParams,
    query: Type.Object(
      { version: Type.Optional(Digits('The text and document of this version; default: the newest')) },
      { additionalProperties: false },
    ),
    status: 200,
    reply: RuleView,
    failures: { 404: 'Unknown rule or version' },
  }),
  replaceRule: define({
    method: 'PUT',
    path: '/api/rules/:id',
    access: access.operators,
    teams: 'refused',
    feature: 'rules',
    summary: 'Replace a rule; another document makes a version. Without `mode` in the document the mode stays as it is',
    params: RuleParams,
    body: RuleBody,
    yaml: 'rule',
    status: 200,
    reply: RuleStored,
    failures: { 400: invalidRule, 404: fileRule, 409: 'The rule is read from a file: change the file' },
  }),
  deleteRule: define({
    method: 'DELETE',
    path: '/api/rules/:id',
    access: access.operators,
    teams: 'refused',
    feature: 'rules',
    summary: 'Delete a rule; suspensions that it made stay as they are',
    params: RuleParams,
    status: 200,
    reply: Ok,
    failures: { 404: fileRule, 409: 'The rule is read from a file: remove the file' },
  }),
  setRuleMode: define({
    method: 'POST',
    path: '/api/rules/:id/mode',
    access: access.operators,
    teams: 'refused',
    feature: 'rules',
    summary: 'Switch a rule to observe, alert or enforce. Its tests are run first; alert and enforce need tests',
    params: RuleParams,
    body: Type.Object({ mode: Mode }, { additionalProperties: false }),
    status: 200,
    reply: RuleStored,
    failures: { 400: invalidRule, 404: fileRule, 409: 'The rule is read from a file: change the file' },
  }),
  setPackMode: define({
    method: 'POST',
    path: '/api/rules/mode',
    access: access.operators,
    teams: 'refused',
    feature: 'rules',
    summary:
      'Switch all rules of a pack to observe, alert or enforce at once. Their tests are run first, as for a single rule; if one fails, none is switched',
    body: PackModeBody,
    status: 200,
    reply: PackModeSet,
    failures: {
      400: 'A rule has no tests or fails them: its title, and the first fault with line and column',
      404: 'No rule has the tag of this pack',
      409: 'Every rule of the pack that has another mode is read from a file, or a rule was changed meanwhile',
    },
  }),
  testRule: define({
    method: 'POST',
    path: '/api/rules/test',
    access: access.operators,
    teams: 'global',
    feature: 'rules',
    summary: 'Check a rule and run its tests; nothing is stored',
    body: Type.Object({ rule: GivenRule }, { additionalProperties: false }),
    status: 200,
    reply: RuleTested,
    failures: { 400: invalidRule },
  }),
  backtestRule: define({
    method: 'POST',
    path: '/api/rules/backtest',
    access: access.operators,
    teams: 'refused',
    feature: 'rules',
    summary:
      'Run a rule against stored events and report what it would have done; nothing is stored, nobody is suspended',
    headers: {
      Accept:
        'application/x-ndjson: lines of { "progress": { "events_read", "percent" } } while it runs, then one of { "result" } or of { "error", "code" }',
    },
    body: BacktestBody,
    largeBody: true,
    status: 200,
    reply: RuleBacktest,
    failures: {
      400: 'The rule does not compile, or `from` is in a time whose events are deleted; the sentence says since when they are kept',
      404: 'Unknown rule',
      429: 'The key runs a backtest already; retry after Retry-After seconds',
    },
  }),
  listRuleFirings: define({
    method: 'GET',
    path: '/api/rules/:id/firings',
    access: access.readers,
    teams: 'agents',
    feature: 'rules',
    summary: 'List the firings of a rule, newest first, and count them by hour',
    params: RuleParams,
    query: FiringQuery,
    status: 200,
    reply: RuleFirings,
    failures: { 404: 'Unknown rule' },
  }),
}
