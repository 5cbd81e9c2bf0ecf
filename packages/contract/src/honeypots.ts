import { type Static, Type } from 'typebox'
import { Count, choice, InstanceId, limits, nullable, Timestamp, Uuid } from './fields.ts'

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
  'generic',
] as const
export type KeyType = (typeof keyTypes)[number]

const honeypotTypes = ['api_key', 'file_path'] as const
const Label = Type.String({ maxLength: limits.label, description: 'Where it is planted' })

/** One flat shape; which of keyType and path is required follows from type. */
export const NewHoneypot = Type.Object(
  {
    instanceId: InstanceId,
    type: choice(honeypotTypes),
    keyType: Type.Optional(choice(keyTypes)),
    path: Type.Optional(
      Type.String({ minLength: 1, maxLength: limits.decoyPath, description: 'May hold *, ** and ?' }),
    ),
    label: Type.Optional(Label),
  },
  { description: 'type api_key needs keyType; type file_path needs path' },
)
export type NewHoneypot = Static<typeof NewHoneypot>

export const HoneypotCreated = Type.Object({
  ok: Type.Literal(true),
  id: Uuid,
  type: choice(honeypotTypes),
  keyType: Type.Optional(choice(keyTypes)),
  path: Type.Optional(Type.String()),
  createdAt: Timestamp,
  key: Type.Optional(Type.String({ description: 'The decoy key: shown here and never again' })),
})
export type HoneypotCreated = Static<typeof HoneypotCreated>

export const HoneypotQuery = Type.Object({ instance_id: Type.Optional(InstanceId) })

export const HoneypotList = Type.Object({
  honeypots: Type.Array(
    Type.Object({
      id: Uuid,
      type: choice(honeypotTypes),
      keyType: Type.Optional(choice(keyTypes)),
      createdAt: Timestamp,
    }),
  ),
})

export const HoneypotDetail = Type.Object({
  id: Uuid,
  type: choice(honeypotTypes),
  keyType: Type.Optional(choice(keyTypes)),
  path: Type.Optional(Type.String()),
  instanceId: InstanceId,
  label: nullable(Type.String()),
  createdAt: Timestamp,
  deletedAt: nullable(Timestamp),
  hitCount: Count,
  hits: Type.Array(
    Type.Object({
      id: Uuid,
      at: Timestamp,
      reporter: nullable(Type.String({ description: 'The instance that asked, as far as its key or its report says' })),
      tool: nullable(Type.String()),
      ip_address: nullable(Type.String()),
      event_id: Uuid,
    }),
    { description: 'The latest 100' },
  ),
})
export type HoneypotDetail = Static<typeof HoneypotDetail>

const CheckMeta = Type.Record(Type.String(), Type.Unknown(), {
  description: 'Context, for example { "tool": "shell-exec" }',
})

export const KeyCheck = Type.Object({
  key: Type.String({ minLength: 1, maxLength: limits.checkedKey, description: 'Any text that may hold a key' }),
  meta: Type.Optional(CheckMeta),
})
export const PathCheck = Type.Object({
  path: Type.String({ minLength: 1, maxLength: limits.checkedPath }),
  meta: Type.Optional(CheckMeta),
})
export const CheckReply = Type.Object({ matched: Type.Boolean() })

export const HoneypotParams = Type.Object({ id: Uuid })
export const HoneypotDeleted = Type.Object({ ok: Type.Literal(true), id: Uuid })
