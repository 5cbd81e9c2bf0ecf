import { type Static, Type } from 'typebox'
import { nullable, Timestamp } from './fields.ts'

export const AuditEntry = Type.Object({
  seq: Type.Integer({ minimum: 1 }),
  at: Timestamp,
  actor: Type.String({ description: 'Key id, or "system"' }),
  scope: nullable(Type.String()),
  ip: nullable(Type.String()),
  action: Type.String(),
  target: nullable(Type.String()),
  before: Type.Unknown(),
  after: Type.Unknown(),
  reason: nullable(Type.String()),
  request_id: nullable(Type.String()),
  prev_hash: Type.String(),
  hash: Type.String(),
})
export type AuditEntry = Static<typeof AuditEntry>

export const AuditQuery = Type.Object({
  after: Type.Optional(Type.String({ pattern: '^[0-9]{1,15}$', description: 'Entries after this seq; 0 unless told' })),
  limit: Type.Optional(
    Type.String({ pattern: '^[0-9]{1,15}$', description: 'Entries a page, 1 to 1000; 100 unless told' }),
  ),
})
export const AuditPage = Type.Object({ entries: Type.Array(AuditEntry), next: nullable(Type.String()) })
