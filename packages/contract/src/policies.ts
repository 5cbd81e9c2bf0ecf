import type { Static } from 'typebox'
import { access, define } from './endpoint.ts'
import { Count, choice, Digits, InstanceId, InstanceParams, Instant, nullable, Ok, Timestamp, Uuid } from './fields.ts'
import { DocumentFault, DocumentFileFault } from './stored-rules.ts'
import { Type } from './type.ts'

/** Header of the answers to heartbeats and polls: the version of the policy sets. */
export const policyHeader = 'x-wardline-policy'
export const policyHeaderText =
  'Version of the policy sets; 0 = none was ever stored. A client that knows a lower one gets its set from /api/instances/:instanceId/policy'

/** Bounds of all stored policies. What is in one policy is bounded by its grammar, in packages/policy. */
export const storedPolicyLimits = {
  /** Policies: an agent looks at the rules of each before a call. */
  policies: 100,
  /** Bytes of a policy's text, as of a rule's. */
  textBytes: 64 * 1024,
  /**
   * Bytes of all documents together as they are delivered, label packs expanded. A hook reads its set before each call, and
   * every agent fetches it after a change. Clients accept at most 512 KiB, with the titles around the documents.
   */
  setBytes: 448 * 1024,
  /** Versions listed with a policy. */
  listedVersions: 100,
  /** Days of a backtest: the usual retention of events. */
  backtestDays: 90,
  /** Calls shown by a backtest, and characters of a name in one. */
  backtestSamples: 20,
  backtestNameLength: 200,
  /** Tools whose schemas come with a policy. */
  tools: 2_000,
} as const

export const policyModes = ['observe', 'enforce'] as const
export type PolicyMode = (typeof policyModes)[number]

/** A policy as its grammar in packages/policy reads it. */
export type PolicyDocument = Record<string, unknown>

const Mode = choice(policyModes, 'observe: records what it would have said; enforce: decides')
const PolicyVersion = Type.Integer({ minimum: 1, description: 'Grows by one with each change of the document' })
const SetVersion = Type.Integer({
  minimum: 0,
  description:
    'Version of the policy sets: grows with every change of a policy or of operator tags; 0 = none was ever stored',
})

/** A policy in a request: the document, or its text in YAML or JSON. */
const GivenPolicy = Type.Unsafe<PolicyDocument | string>({
  anyOf: [{ type: 'object' }, { type: 'string', minLength: 1, maxLength: storedPolicyLimits.textBytes }],
  description: 'A policy, or its text in YAML or JSON',
})

const Tools = Type.Array(
  Type.Object({
    name: Type.String({ minLength: 1, maxLength: 500 }),
    description: Type.Optional(Type.String()),
    inputSchema: Type.Optional(Type.Unsafe<{ properties?: Record<string, unknown> }>({ type: 'object' })),
    annotations: Type.Optional(Type.Unsafe<Record<string, unknown>>({ type: 'object' })),
  }),
  {
    maxItems: storedPolicyLimits.tools,
    description: 'What servers answer to tools/list: an argument in `when` that its tool does not have is refused',
  },
)
const WrappedPolicy = Type.Object({ policy: GivenPolicy, tools: Type.Optional(Tools) }, { additionalProperties: false })

/** The document itself, or its text if its comments and line numbers matter. */
const PolicyBody = Type.Unsafe<PolicyDocument | Static<typeof WrappedPolicy>>({
  type: 'object',
  minProperties: 1,
  if: { type: 'object', required: ['policy'] },
  // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
  then: WrappedPolicy,
  description: 'A policy (see docs/guide/policies.md), or { "policy": "<its text in YAML or JSON>", "tools": […] }',
})

const PolicyStored = Type.Object({ id: Uuid, version: PolicyVersion, mode: Mode, set_version: SetVersion })
export type PolicyStored = Static<typeof PolicyStored>

const Selector = Type.Object({
  agents: Type.Array(Type.String(), { description: 'Ids, with * for any characters; empty = every agent' }),
  tags: Type.Array(Type.String(), { description: 'Tags of operators and keys, one is enough; empty = every agent' }),
})

const policySummary = {
  id: Uuid,
  title: Type.String(),
  mode: Mode,
  version: PolicyVersion,
  file: nullable(
    Type.String({ description: 'File of WARDLINE_POLICY_DIR that it is read from; null = stored by this interface' }),
  ),
  for: Selector,
  enforce_for: nullable({ ...Selector, description: 'Agents that it decides for in mode observe too; null = none' }),
  flow: choice(['off', 'default', 'strict']),
  rules: Type.Array(Type.Object({ title: Type.String(), decision: choice(['allow', 'ask', 'deny']) })),
  created_at: Timestamp,
  changed_at: Timestamp,
  changed_by: nullable(Type.String({ description: 'Name of the key that changed it last; null for a file' })),
}
const PolicySummary = Type.Object(policySummary)
export type PolicySummary = Static<typeof PolicySummary>

const PolicyList = Type.Object({
  policies: Type.Array(PolicySummary, { maxItems: storedPolicyLimits.policies, description: 'By title' }),
  file_faults: Type.Array(DocumentFileFault, { description: 'Files of WARDLINE_POLICY_DIR that do not take effect' }),
  set_version: SetVersion,
})
export type PolicyList = Static<typeof PolicyList>

const PolicyView = Type.Object({
  ...policySummary,
  document: Type.Unsafe<PolicyDocument>({ type: 'object' }),
  text: Type.String({ description: 'As it was sent' }),
  format: choice(['yaml', 'json']),
  versions: Type.Array(
    Type.Object({
      version: PolicyVersion,
      created_at: Timestamp,
      created_by: nullable(Type.String({ description: 'Name of the key; null for a file' })),
    }),
    { maxItems: storedPolicyLimits.listedVersions, description: 'Newest first' },
  ),
})
export type PolicyView = Static<typeof PolicyView>

const PolicyLinted = Type.Object({
  title: nullable(Type.String({ description: 'null if it cannot be read' })),
  rules: { ...Count, description: 'Rules that were read' },
  faults: Type.Array(DocumentFault, { description: 'What is wrong, with the place in the text; empty if nothing is' }),
})
export type PolicyLinted = Static<typeof PolicyLinted>

/** The policies of one agent, as its clients store and verify them. */
export const DeliveredPolicy = Type.Object({
  instance_id: InstanceId,
  version: SetVersion,
  body: Type.String({
    description:
      'JSON of { "agent": { "id", "tags" }, "policies": [{ "id", "title", "version", "mode", "document" }] }: the policies whose `for` the agent matches by its id and the tags of operators and keys, with their mode for this agent, without cases, with packs of labels written out',
  }),
  signature_ed25519: Type.String({
    description:
      'Ed25519 (RFC 8032), base64url, by the key of /.well-known/wardline-keys.json, over the line `wardline-policy-v1` and instance_id, version and body, each followed by a line feed',
  }),
})
export type DeliveredPolicy = Static<typeof DeliveredPolicy>

const span = `at most ${storedPolicyLimits.backtestDays} days`
const PolicyBacktestBody = Type.Object(
  {
    policy: Type.Optional(GivenPolicy),
    id: Type.Optional({ ...Uuid, description: 'A stored policy, instead of `policy`' }),
    tools: Type.Optional(Tools),
    from: Type.Optional(Instant('Calls since then; default: 7 days before `to`, or when the stored events begin')),
    to: Type.Optional(Instant(`Calls before then, ${span} after \`from\`; default: now`)),
  },
  { additionalProperties: false },
)
export type PolicyBacktestBody = Static<typeof PolicyBacktestBody>

const backtestDecision = choice(['ask', 'deny'])
const PolicyBacktest = Type.Object({
  from: Timestamp,
  to: Timestamp,
  data_from: nullable({
    ...Timestamp,
    description: 'Where the stored events of the range begin: later than `from` if none is as old; null without any',
  }),
  calls: { ...Count, description: 'Stored tool calls of agents that the policy is for' },
  asked: { ...Count, description: 'Calls that it would have asked about' },
  denied: { ...Count, description: 'Calls that it would have denied' },
  agents: { ...Count, description: 'Agents of the calls asked about or denied; at most 10,000 are counted' },
  sessions: { ...Count, description: 'Sessions with a call; an agent without session ids has one' },
  asks_per_session: Type.Number({ minimum: 0, description: 'Calls asked about, divided by the sessions' }),
  unjudged: {
    ...Count,
    description:
      'Calls that the flow would ask about unless their destination stood in a prompt or came from a directory, which is stored only with calls of agents that had a policy with a flow; not among those asked',
  },
  without_arguments: {
    ...Count,
    description: 'Calls stored without arguments: conditions on arguments cannot match them',
  },
  rules: Type.Array(
    Type.Object({
      rule: nullable(Type.String({ description: 'Title of the rule, `flow`, or null for the default of the policy' })),
      decision: backtestDecision,
      count: Count,
    }),
    { description: 'What decided, by count' },
  ),
  samples: Type.Array(
    Type.Object({
      seq: Type.Integer({ minimum: 1 }),
      event_id: Uuid,
      at: Timestamp,
      instance_id: nullable(Type.String()),
      session_id: nullable(Type.String()),
      tool: Type.String(),
      decision: backtestDecision,
      rule: nullable(Type.String()),
      why: nullable(Type.String()),
    }),
    {
      maxItems: storedPolicyLimits.backtestSamples,
      description: 'The newest calls asked about or denied, newest first',
    },
  ),
  events_read: { ...Count, description: 'Events that were read, with those of the day before `from`' },
  evicted: { ...Count, description: 'Sessions forgotten to limit memory; above 0, limits and flows may differ' },
  duration_ms: Count,
})
export type PolicyBacktest = Static<typeof PolicyBacktest>

const PolicyParams = Type.Object({ id: Uuid })
const invalidPolicy =
  'The policy cannot be read, contradicts itself or fails its cases: the first fault with line and column; all in `faults`'
const unknown = 'Unknown policy'
const changeFile = 'The policy is read from a file: change the file'

export const policyEndpoints = {
  createPolicy: define({
    method: 'POST',
    path: '/api/policies',
    access: access.operators,
    teams: 'refused',
    feature: 'policies',
    summary: `Store a policy of tool calls, at most ${storedPolicyLimits.policies}. Its cases are checked first; agents have it with their next heartbeat or poll`,
    body: PolicyBody,
    yaml: 'policy',
    status: 201,
    reply: PolicyStored,
    failures: { 400: invalidPolicy, 409: 'Another change of the policies was faster: retry' },
  }),
  listPolicies: define({
    method: 'GET',
    path: '/api/policies',
    access: access.readers,
    teams: 'global',
    feature: 'policies',
    summary: 'List the policies',
    status: 200,
    reply: PolicyList,
  }),
  getPolicy: define({
    method: 'GET',
    path: '/api/policies/:id',
    access: access.readers,
    teams: 'global',
    feature: 'policies',
    summary: 'Get a policy, its text and its versions',
    params: PolicyParams,
    query: Type.Object(
      { version: Type.Optional(Digits('The text and document of this version; default: the newest')) },
      { additionalProperties: false },
    ),
    status: 200,
    reply: PolicyView,
    failures: { 404: 'Unknown policy or version' },
  }),
  replacePolicy: define({
    method: 'PUT',
    path: '/api/policies/:id',
    access: access.operators,
    teams: 'refused',
    feature: 'policies',
    summary:
      'Replace a policy; another document makes a version. Without `mode` in the document the mode stays as it is',
    params: PolicyParams,
    body: PolicyBody,
    yaml: 'policy',
    status: 200,
    reply: PolicyStored,
    failures: { 400: invalidPolicy, 404: unknown, 409: changeFile },
  }),
  deletePolicy: define({
    method: 'DELETE',
    path: '/api/policies/:id',
    access: access.operators,
    teams: 'refused',
    feature: 'policies',
    summary: 'Delete a policy; its versions are kept, because decisions refer to them',
    params: PolicyParams,
    status: 200,
    reply: Ok,
    failures: { 404: unknown, 409: 'The policy is read from a file: remove the file' },
  }),
  setPolicyMode: define({
    method: 'PUT',
    path: '/api/policies/:id/mode',
    access: access.operators,
    teams: 'refused',
    feature: 'policies',
    summary: 'Switch a policy to observe or enforce',
    params: PolicyParams,
    body: Type.Object({ mode: Mode }, { additionalProperties: false }),
    status: 200,
    reply: PolicyStored,
    failures: { 404: unknown, 409: changeFile },
  }),
  lintPolicy: define({
    method: 'POST',
    path: '/api/policies/lint',
    access: access.operators,
    teams: 'global',
    feature: 'policies',
    summary: 'List the faults of a policy, as storing it would; nothing is stored',
    body: WrappedPolicy,
    yaml: 'policy',
    status: 200,
    reply: PolicyLinted,
  }),
  backtestPolicy: define({
    method: 'POST',
    path: '/api/policies/backtest',
    access: access.operators,
    teams: 'refused',
    feature: 'policies',
    summary: 'Run a policy against stored tool calls and report what it would have decided; nothing is stored',
    headers: {
      Accept:
        'application/x-ndjson: lines of { "progress": { "events_read", "percent" } } while it runs, then one of { "result" } or of { "error", "code" }',
    },
    body: PolicyBacktestBody,
    status: 200,
    reply: PolicyBacktest,
    failures: {
      400: `${invalidPolicy}; or \`from\` is in a time whose events are deleted`,
      404: unknown,
      429: 'A backtest of this key is running',
      503: 'Two backtests are running',
    },
  }),
  getInstancePolicy: define({
    method: 'GET',
    path: '/api/instances/:instanceId/policy',
    access: access.everyone,
    teams: 'agent',
    feature: 'policies',
    summary: 'Get the policies of an instance, signed; 304 for If-None-Match with the current ETag',
    params: InstanceParams,
    headers: { 'if-none-match': 'ETag of the last answer: its version in quotes' },
    status: 200,
    reply: DeliveredPolicy,
    failures: { 404: 'Unknown instance' },
  }),
}
