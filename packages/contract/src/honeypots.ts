import type { Static } from 'typebox'
import { DecoyInstance, decoyInventoryEndpoints, decoyStates, hitForms, inventory } from './decoy-inventory.ts'
import { access, define } from './endpoint.ts'
import { Count, choice, InstanceId, limits, nullable, Timestamp, Uuid } from './fields.ts'
import { Type } from './type.ts'

/** Header of the answer to a check: `partial` if the text took more work than a check may. */
export const checkHeader = 'x-wardline-check'

export const keyTypes = [
  'openai',
  'anthropic',
  'deepseek',
  'aws',
  'github',
  'gitlab',
  'slack',
  'stripe',
  'google',
  'sendgrid',
  'npm',
  'huggingface',
  'twilio',
  'azure_client_secret',
  'azure_storage',
  'postgres_url',
  'jwt',
  'ssh_private_key',
  'ethereum',
  'url',
  'generic',
] as const
export type KeyType = (typeof keyTypes)[number]

const honeypotTypes = ['api_key', 'file_path'] as const
const Label = Type.String({ maxLength: limits.label, description: 'Where the decoy is planted' })

/** One flat object; `type` determines whether keyType or path is required. */
export const NewHoneypot = Type.Object(
  {
    instanceId: Type.Optional({
      ...InstanceId,
      description: 'The instance where it is planted. Without it a path is a decoy for every agent',
    }),
    type: choice(honeypotTypes),
    keyType: Type.Optional(choice(keyTypes)),
    path: Type.Optional(
      Type.String({ minLength: 1, maxLength: limits.decoyPath, description: 'May contain *, ** and ?' }),
    ),
    label: Type.Optional(Label),
  },
  { description: 'type api_key needs instanceId and keyType; type file_path needs path' },
)
export type NewHoneypot = Static<typeof NewHoneypot>

export const HoneypotCreated = Type.Object({
  ok: Type.Literal(true),
  id: Uuid,
  type: choice(honeypotTypes),
  keyType: Type.Optional(choice(keyTypes)),
  path: Type.Optional(Type.String()),
  createdAt: Timestamp,
  key: Type.Optional(Type.String({ description: 'The decoy key, or the URL of keyType url; shown only here' })),
})
export type HoneypotCreated = Static<typeof HoneypotCreated>

const HoneypotQuery = Type.Object({
  instance_id: Type.Optional({
    ...InstanceId,
    description: 'Only decoys planted at this instance, without those for every agent',
  }),
  include: Type.Optional(choice(['details'], 'Adds `details` to each decoy: where it is planted, and its hits')),
  state: Type.Optional(choice(decoyStates, 'Only decoys in this state; deleted ones are not listed')),
})

const WhereAndHits = Type.Object({
  ...inventory,
  path: Type.Optional(Type.String()),
  instanceId: DecoyInstance,
  label: nullable(Type.String({ description: 'Where the decoy is planted' })),
  hit_count: Type.Integer({
    minimum: 0,
    maximum: limits.listedHits,
    description: `${limits.listedHits} means ${limits.listedHits} or more`,
  }),
  first_hit_at: nullable(Timestamp),
  last_hit_at: nullable(Timestamp),
})

const HoneypotList = Type.Object({
  honeypots: Type.Array(
    Type.Object({
      id: Uuid,
      type: choice(honeypotTypes),
      keyType: Type.Optional(choice(keyTypes)),
      createdAt: Timestamp,
      details: Type.Optional(WhereAndHits),
    }),
  ),
})
export type ListedHoneypot = Static<typeof HoneypotList>['honeypots'][number]

export const HoneypotDetail = Type.Object({
  id: Uuid,
  type: choice(honeypotTypes),
  keyType: Type.Optional(choice(keyTypes)),
  path: Type.Optional(Type.String()),
  instanceId: DecoyInstance,
  label: nullable(Type.String()),
  createdAt: Timestamp,
  deleted_at: nullable(Timestamp),
  ...inventory,
  hit_count: Count,
  first_hit_at: nullable(Timestamp),
  hits: Type.Array(
    Type.Object({
      id: Uuid,
      at: Timestamp,
      reporter: nullable(Type.String({ description: 'The instance that asked, by its key or its report' })),
      tool: nullable(Type.String()),
      ip_address: nullable(Type.String()),
      event_id: Uuid,
      form: nullable(
        choice(
          hitForms,
          'Its form in the checked text, `reported`: in the paths of a reported tool call; null for hits of earlier versions',
        ),
      ),
      test: Type.Boolean({ description: 'A test hit by an operator; not counted' }),
      ignored: Type.Boolean({ description: 'An ignore rule of its tool applied: counted, but no breach' }),
      outside: Type.Boolean({ description: 'By an instance other than the one it was planted for' }),
    }),
    { description: 'The latest 100' },
  ),
})
export type HoneypotDetail = Static<typeof HoneypotDetail>

/** A suggested decoy: what to create, and what to write where. */
const DecoyPreset = Type.Object({
  id: Type.String(),
  title: Type.String(),
  type: choice(honeypotTypes),
  keyType: Type.Optional(choice(keyTypes)),
  path: Type.Optional(Type.String({ description: 'A path to start from' })),
  label: Type.String({ description: 'A label to start from' }),
  place: Type.String({ description: 'The file where it is planted' }),
  snippet: Type.String({
    description:
      'What to plant: {{value}} stands for the decoy key, {{path}} for the path, quoted for a shell. Empty where nothing needs to be planted',
  }),
  note: nullable(Type.String({ description: 'Caveats' })),
})
export type DecoyPreset = Static<typeof DecoyPreset>

const DecoyPresetList = Type.Object({ presets: Type.Array(DecoyPreset) })

const Rotated = Type.Object({
  ok: Type.Literal(true),
  id: Uuid,
  replaces: Uuid,
  keyType: choice(keyTypes),
  createdAt: Timestamp,
  key: Type.String({ description: 'The new decoy key; shown only here' }),
})
export type Rotated = Static<typeof Rotated>

const CheckMeta = Type.Record(Type.String(), Type.Unknown(), {
  description: 'Context, for example { "tool": "shell-exec" }',
})

const KeyCheck = Type.Object({
  key: Type.String({ minLength: 1, maxLength: limits.checkedKey, description: 'Any text that may contain a key' }),
  meta: Type.Optional(CheckMeta),
})
const PathCheck = Type.Object({
  path: Type.String({ minLength: 1, maxLength: limits.checkedPath }),
  meta: Type.Optional(CheckMeta),
})
const CheckReply = Type.Object({ matched: Type.Boolean() })

/** Where a decoy key was found, other than in the arguments of a call. */
const outputKinds = ['result', 'answer'] as const
export type OutputKind = (typeof outputKinds)[number]

const OutputCheck = Type.Object({
  text: Type.String({
    minLength: 1,
    maxLength: limits.checkedKey,
    description: 'The output, or what in it may be a key',
  }),
  of: choice(outputKinds, 'The result of a tool, or an answer of the model'),
  meta: Type.Optional(CheckMeta),
})

const HoneypotParams = Type.Object({ id: Uuid })
const HoneypotDeleted = Type.Object({ ok: Type.Literal(true), id: Uuid })

const checkReplyHeaders = {
  [checkHeader]:
    '`partial` if the text took more work than a check may, so that only a part was compared: treat the call as a match. Otherwise absent',
}

export const honeypotEndpoints = {
  listHoneypots: define({
    method: 'GET',
    path: '/api/honeypots',
    access: access.readers,
    teams: 'agents',
    feature: 'honeypots',
    summary: 'List decoys, of one instance or of all; never their values',
    query: HoneypotQuery,
    status: 200,
    reply: HoneypotList,
  }),
  listHoneypotPresets: define({
    method: 'GET',
    path: '/api/honeypots/presets',
    access: access.readers,
    teams: 'global',
    feature: 'honeypots',
    summary: 'List presets: decoys worth planting, one for each kind of key and some paths',
    status: 200,
    reply: DecoyPresetList,
  }),
  ...decoyInventoryEndpoints,
  rotateDecoy: define({
    method: 'POST',
    path: '/api/honeypots/:id/rotate',
    access: access.operators,
    teams: 'agents',
    feature: 'honeypots',
    summary: 'Replace a decoy key by a new value, shown once; the old value is retired and still matches',
    params: HoneypotParams,
    status: 201,
    reply: Rotated,
    failures: { 404: 'Unknown or deleted honeypot' },
  }),
  getHoneypot: define({
    method: 'GET',
    path: '/api/honeypots/:id',
    access: access.readers,
    teams: 'agents',
    feature: 'honeypots',
    summary: 'Get a decoy with its latest hits; hits are kept after the decoy is deleted',
    params: HoneypotParams,
    status: 200,
    reply: HoneypotDetail,
    failures: { 404: 'Unknown honeypot' },
  }),
  createHoneypot: define({
    method: 'POST',
    path: '/api/honeypots',
    access: access.operators,
    teams: 'agents',
    feature: 'honeypots',
    summary: 'Create a decoy key or a decoy path',
    body: NewHoneypot,
    status: 201,
    reply: HoneypotCreated,
    failures: { 404: 'Unknown instance, for a caller limited to a team' },
  }),
  checkKey: define({
    method: 'POST',
    path: '/api/honeypots/check/key',
    access: access.agents,
    feature: 'honeypots',
    summary: 'Check whether a text contains a decoy key; a match is recorded as a breach before the answer',
    body: KeyCheck,
    status: 200,
    reply: CheckReply,
    replyHeaders: checkReplyHeaders,
    failures: {
      429: 'The quota of checks is exceeded. Nothing was checked: treat the call as a match until a retry succeeds',
      503: 'The key has too many costly checks in progress. Nothing was checked: treat the call as a match until a retry succeeds',
    },
  }),
  checkPath: define({
    method: 'POST',
    path: '/api/honeypots/check/path',
    access: access.agents,
    feature: 'honeypots',
    summary: 'Check whether a path is a decoy; a match is recorded as a breach before the answer',
    body: PathCheck,
    status: 200,
    reply: CheckReply,
    replyHeaders: checkReplyHeaders,
    failures: {
      429: 'The quota of checks is exceeded. Nothing was checked: treat the call as a match until a retry succeeds',
      503: 'The key has too many costly checks in progress. Nothing was checked: treat the call as a match until a retry succeeds',
    },
  }),
  checkOutput: define({
    method: 'POST',
    path: '/api/honeypots/check/output',
    access: access.agents,
    feature: 'honeypots',
    summary:
      'Look for decoy keys in what a tool returned or the model answered. A decoy key in a result is stored as a warning, one in an answer as a breach; the answer does not say whether there was one',
    body: OutputCheck,
    status: 200,
    reply: Type.Object({ ok: Type.Literal(true) }),
    failures: {
      429: 'The quota of events is exceeded: an output counts as an event. Nothing was compared',
      503: 'The key has too many costly checks in progress. Nothing was compared',
    },
  }),
  deleteHoneypot: define({
    method: 'DELETE',
    path: '/api/honeypots/:id',
    access: access.operators,
    teams: 'agents',
    feature: 'honeypots',
    summary: 'Delete a decoy; its hits are kept',
    params: HoneypotParams,
    status: 200,
    reply: HoneypotDeleted,
    failures: { 404: 'Unknown honeypot' },
  }),
}
