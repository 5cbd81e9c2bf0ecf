import type { Static } from 'typebox'
import { access, define } from './endpoint.ts'
import { Count, choice, InstanceId, Instant, Timestamp } from './fields.ts'
import { Type } from './type.ts'

/** The parts of a bundle, in archive order. Each is one or more files of JSON objects, one per line. */
export const incidentKinds = [
  'agent',
  'heartbeats',
  'decoy_hits',
  'control_changes',
  'suspensions',
  'rule_firings',
  'rule_versions',
  'audit',
  'keys',
  'events',
] as const
export type IncidentKind = (typeof incidentKinds)[number]

export const incidentLimits = {
  /** A quarter of a year: longer than the usual retention, and a bound on the audit entries in the range. */
  days: 92,
  /** Audit entries in the range: some 40 MB, hashed one by one. */
  auditEntries: 100_000,
  /** Maximum events counted in a preview: a tenth of a second. */
  countedEvents: 100_000,
  /** Rows per kind listed in a preview's timeline. */
  timelineRows: 100,
  /** Concurrent exports per process; each compresses for up to a minute. */
  exports: 4,
} as const

export const IncidentQuery = Type.Object({
  instance_id: InstanceId,
  from: Instant('At or after this ISO 8601 instant'),
  to: Instant(`Before this ISO 8601 instant, at most ${incidentLimits.days} days after from`),
})
export type IncidentQuery = Static<typeof IncidentQuery>

export const IncidentPreview = Type.Object({
  instance_id: InstanceId,
  from: Timestamp,
  to: Timestamp,
  counts: Type.Object({
    events: Type.Integer({ minimum: 0, description: `At most ${incidentLimits.countedEvents}` }),
    decoy_hits: Count,
    control_changes: Count,
    suspensions: Count,
    rule_firings: Count,
    audit: Type.Integer({ minimum: 0, description: 'All entries of the range: the chain has no gaps' }),
  }),
  timeline: Type.Array(
    Type.Object({
      at: Timestamp,
      kind: choice(['decoy_hit', 'control_change', 'rule_firing', 'suspension_stage']),
      text: Type.String(),
    }),
    { description: `The oldest first; the first ${incidentLimits.timelineRows} of each kind` },
  ),
})
export type IncidentPreview = Static<typeof IncidentPreview>

const failures = {
  404: 'Unknown instance without an entry in the audit log',
  503: 'Too many exports or searches at a time; retry after Retry-After seconds',
}

export const incidentEndpoints = {
  exportIncident: define({
    method: 'GET',
    path: '/api/incidents/export',
    access: access.admins,
    feature: 'incidents',
    summary:
      'Export what is stored about an instance in a range of time as one signed archive; one export of a key at a time',
    query: IncidentQuery,
    status: 200,
    file: {
      contentType: 'application/gzip',
      description: 'A tar.gz archive, which `wardline incident verify` verifies',
    },
    failures: { ...failures, 429: 'Another export with this key is under way' },
  }),
  previewIncident: define({
    method: 'GET',
    path: '/api/incidents/preview',
    access: access.admins,
    feature: 'incidents',
    summary: 'Count what a bundle would contain, and list the main points in time',
    query: IncidentQuery,
    status: 200,
    reply: IncidentPreview,
    failures,
  }),
} as const

const Hash = Type.String({ pattern: '^[0-9a-f]{64}$' })
const Size = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })
const ChainPlace = Type.Object({ seq: Size, hash: Hash })

/** Manifest of a bundle. Its signature is in the next file. */
export const IncidentManifest = Type.Object({
  format: Type.Literal(1),
  id: Type.String({ maxLength: 100 }),
  deployment: Type.String({ maxLength: 100 }),
  version: Type.String({ maxLength: 100 }),
  instance_id: InstanceId,
  from: Timestamp,
  to: Timestamp,
  exported_at: Timestamp,
  exported_by: Type.Object({ key_id: Type.String(), name: Type.String(), scope: Type.String() }),
  /**
   * The rows of the audit log start after `after` and end with `last`; `head` was the log's end when the export began.
   */
  audit: Type.Object({ after: ChainPlace, last: ChainPlace, head: ChainPlace }),
  block_bytes: Type.Literal(65_536),
  entries: Type.Array(
    Type.Object({
      name: Type.String({ maxLength: 100 }),
      size: Size,
      sha256: Hash,
      rows: Size,
      packed: Type.Object({ offset: Size, size: Size, blocks: Type.Array(Hash) }),
    }),
  ),
})
export type IncidentManifest = Static<typeof IncidentManifest>
