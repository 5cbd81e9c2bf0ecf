import type { Static } from 'typebox'
import { access, define } from './endpoint.ts'
import { Count, choice, Digits, Instant, limits, nullable, Pattern, Timestamp, UpTo } from './fields.ts'
import { Type } from './type.ts'

export const AuditEntry = Type.Object({
  seq: Type.Integer({ minimum: 1 }),
  at: Timestamp,
  actor: Type.String({
    description: 'Key id, "system", "cli", or "channel:" and the name of an alert channel whose button was pressed',
  }),
  actor_name: nullable(
    Type.String({
      description: 'Name of the key, also after it was revoked; null when no key acted. Not part of the hash',
    }),
  ),
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
  actor: Type.Optional(
    Type.String({ minLength: 1, maxLength: limits.name, description: 'Key id, name of a key, "system" or "cli"' }),
  ),
  action: Type.Optional(
    Pattern(
      '^[a-z_]{1,40}\\.([a-z_]{1,40}|\\*)$',
      'must be an action such as instance.suspend, or a group such as key.*',
      { description: 'Such as instance.suspend; key.* means every action on keys' },
    ),
  ),
  target: Type.Optional(
    // The longest targets are instance and channel ids; 200 leaves room for others.
    Type.String({
      minLength: 1,
      maxLength: 200,
      description: 'Id of the instance, key, decoy or channel that was changed',
    }),
  ),
  from: Type.Optional(Instant('At or after this ISO 8601 instant')),
  to: Type.Optional(Instant('Before this ISO 8601 instant')),
  order: Type.Optional(choice(['oldest', 'newest'], 'Which entries come first; default: oldest')),
  after: Type.Optional(Digits('Only entries with a higher seq; the cursor when the oldest come first')),
  before: Type.Optional(Digits('Only entries with a lower seq; the cursor when the newest come first')),
  limit: Type.Optional(UpTo(limits.pageSize, `Entries a page, 1 to ${limits.pageSize}; default: 100`)),
})
export type AuditQuery = Static<typeof AuditQuery>

export const AuditPage = Type.Object({
  entries: Type.Array(AuditEntry),
  next: nullable(Type.String({ description: 'Cursor of the next page: `after`, or `before` for the newest first' })),
})

const Hash = Type.String({ description: 'SHA-256 in hexadecimal digits' })

export const AuditChain = Type.Object({
  length: Type.Integer({ minimum: 0, description: 'Entries that were written; seq of the last one' }),
  head_hash: Hash,
  checkpoint: nullable(
    Type.Object(
      { seq: Count, hash: Hash, at: Timestamp },
      { description: 'The last one in the log of the process that answers; null before the first one' },
    ),
  ),
  verification: nullable(
    Type.Object(
      {
        at: Timestamp,
        result: choice(['intact', 'tampered', 'cut'], 'cut: entries at the end are missing'),
        entries: Type.Integer({ minimum: 0, description: 'Entries up to the first fault' }),
        fault_seq: nullable(
          Type.Integer({ minimum: 1, description: 'The first entry that was altered or is missing' }),
        ),
        detail: nullable(Type.String()),
      },
      { description: 'The last one by the process that answers: at startup and once an hour' },
    ),
  ),
})
export type AuditChain = Static<typeof AuditChain>

export const auditEndpoints = {
  listAudit: define({
    method: 'GET',
    path: '/api/audit',
    access: access.admins,
    feature: 'audit',
    summary: 'List the hash-chained record of who changed what',
    query: AuditQuery,
    status: 200,
    reply: AuditPage,
    failures: { 503: 'Too many queued searches and lists; retry after Retry-After seconds' },
  }),
  getAuditChain: define({
    method: 'GET',
    path: '/api/audit/chain',
    access: access.admins,
    feature: 'audit',
    summary: 'Get the length, the last checkpoint and the last verification of the audit chain',
    status: 200,
    reply: AuditChain,
  }),
}
