import { type Static, Type } from 'typebox'
import { choice, nullable, Timestamp } from './fields.ts'

export const scopes = ['agent', 'viewer', 'operator', 'admin'] as const
export type Scope = (typeof scopes)[number]

const KeyId = Type.String({ pattern: '^[0-9a-z]{8}$', description: 'The public part of a key' })
const Binding = Type.String({
  pattern: '^[a-z0-9_-]+\\*?$',
  maxLength: 65,
  description: 'An instance id, or a prefix followed by *',
})

export const NewKey = Type.Object({
  scope: choice(scopes),
  name: Type.String({ minLength: 1, maxLength: 100, pattern: '\\S', description: 'Who holds it' }),
  instances: Type.Optional(
    Type.Array(Binding, {
      minItems: 1,
      maxItems: 100,
      description: 'Required for scope agent, refused for the others',
    }),
  ),
  expires_at: Type.Optional(Type.String({ format: 'date-time', maxLength: 40 })),
})
export type NewKey = Static<typeof NewKey>

export const KeyView = Type.Object({
  id: KeyId,
  scope: choice(scopes),
  name: Type.String(),
  instances: Type.Array(Type.String()),
  created_at: Timestamp,
  expires_at: nullable(Timestamp),
  revoked_at: nullable(Timestamp),
  last_used_at: nullable(Timestamp),
})
export type KeyView = Static<typeof KeyView>

export const KeyCreated = Type.Object({
  ok: Type.Literal(true),
  id: KeyId,
  scope: choice(scopes),
  key: Type.String({ description: 'The key: shown here and never again' }),
})
export type KeyCreated = Static<typeof KeyCreated>

export const KeyList = Type.Object({ keys: Type.Array(KeyView) })
export const KeyParams = Type.Object({ id: KeyId })
export const KeyRotation = Type.Object({
  overlap_seconds: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: 30 * 86_400,
      description: 'How long the old key stays valid; a day unless told',
    }),
  ),
})
export const KeyRevoked = Type.Object({ ok: Type.Literal(true), id: KeyId })

export const SessionCreated = Type.Object({ ok: Type.Literal(true), scope: choice(scopes), expires_at: Timestamp })
