import type { Static } from 'typebox'
import { access, define } from './endpoint.ts'
import { choice, Digits, InstanceId, InstanceParams, limits, NotBlank, nullable, Ok, Timestamp } from './fields.ts'
import { Type } from './type.ts'

export const instanceStatuses = ['active', 'suspended', 'offline'] as const
export type InstanceStatus = (typeof instanceStatuses)[number]

/** Seconds between heartbeats that an agent should keep. */
export const heartbeatIntervalSeconds = 60
/** An instance without a heartbeat for longer than this is offline. */
export const offlineAfterMs = 90_000

/** Header of heartbeat and poll answers: `none` while no decoy could trip for this caller, else `some`. */
export const decoysHeader = 'x-wardline-decoys'

export const Heartbeat = Type.Object({
  instance_id: InstanceId,
  name: NotBlank({ minLength: 1, maxLength: limits.name, description: 'Display name' }),
  agent_type: Type.Optional(Type.String({ maxLength: 100 })),
  version: Type.Optional(Type.String({ maxLength: 100, description: 'Version of the agent' })),
  control_version: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: Number.MAX_SAFE_INTEGER,
      description: 'Control version that the agent has applied',
    }),
  ),
  fail_mode: Type.Optional(choice(['open', 'closed'])),
  boot_id: Type.Optional(Type.String({ maxLength: 100, description: 'New each time the agent starts' })),
})
export type Heartbeat = Static<typeof Heartbeat>

export const InstanceView = Type.Object({
  id: InstanceId,
  name: Type.String(),
  status: choice(instanceStatuses),
  last_heartbeat: Timestamp,
  secondsAgo: Type.Integer(),
  suspension_reason: nullable(Type.String()),
})
export type InstanceView = Static<typeof InstanceView>

export const InstanceQuery = Type.Object({
  status: Type.Optional(choice(instanceStatuses)),
  prefix: Type.Optional({ ...InstanceId, description: 'Prefix of the id' }),
  after: Type.Optional({ ...InstanceId, description: 'Cursor: `next` of the previous page' }),
  limit: Type.Optional(Digits(`Rows a page, 1 to ${limits.pageSize}; default: 100`)),
})
export type InstanceQuery = Static<typeof InstanceQuery>

export const InstanceList = Type.Object({
  instances: Type.Array(InstanceView),
  next: nullable(Type.String({ description: 'Pass it as `after` for the next page; null on the last page' })),
})
export type InstanceList = Static<typeof InstanceList>

const InstanceDeleted = Type.Object({ ok: Type.Literal(true), id: InstanceId })

/** More than the fleet view: what the agent says of itself, and whether it confirmed the last kill or resume. */
export const InstanceDetail = Type.Object({
  id: InstanceId,
  name: Type.String(),
  agent_type: nullable(Type.String()),
  version: nullable(Type.String()),
  fail_mode: nullable(choice(['open', 'closed'])),
  status: choice(instanceStatuses),
  first_seen: Timestamp,
  last_heartbeat: Timestamp,
  suspension_reason: nullable(Type.String()),
  control: Type.Object({
    version: Type.Integer({ minimum: 0 }),
    changed_at: nullable(Timestamp),
    applied_version: nullable(Type.Integer()),
    applied_at: nullable(Timestamp),
    confirmed: Type.Boolean({ description: 'The agent has applied the current version' }),
    claimed_version: nullable(
      Type.Integer({ description: 'A version above `version` that the agent reports although it was never issued' }),
    ),
    mismatch: Type.Boolean({ description: 'The agent is ahead: it may ignore messages until the next kill or resume' }),
  }),
})
export type InstanceDetail = Static<typeof InstanceDetail>

export const instanceEndpoints = {
  sendHeartbeat: define({
    method: 'POST',
    path: '/api/heartbeat',
    access: access.agents,
    feature: 'instances',
    summary: 'Register or refresh an instance',
    body: Heartbeat,
    status: 200,
    replyHeaders: {
      [decoysHeader]: '`none` while no decoy could match for this caller, so checks are unnecessary; else `some`',
    },
    reply: Ok,
    failures: {
      403: 'A new instance beyond WARDLINE_MAX_INSTANCES, or beyond max_instances of the key',
      429: 'Too many new instances within an hour; retry after Retry-After seconds',
    },
  }),
  listInstances: define({
    method: 'GET',
    path: '/api/instances',
    access: access.readers,
    feature: 'instances',
    summary: 'List all instances by id, in pages',
    query: InstanceQuery,
    status: 200,
    reply: InstanceList,
  }),
  deleteInstance: define({
    method: 'DELETE',
    path: '/api/instances/:instanceId',
    access: access.admins,
    feature: 'instances',
    summary: 'Delete an instance that is not suspended; its events are kept, and a heartbeat registers it again',
    params: InstanceParams,
    status: 200,
    reply: InstanceDeleted,
    failures: { 404: 'Unknown instance' },
  }),
  getInstance: define({
    method: 'GET',
    path: '/api/instances/:instanceId',
    access: access.readers,
    feature: 'instances',
    summary: 'Get an instance, and whether its agent confirmed the last kill or resume',
    params: InstanceParams,
    status: 200,
    reply: InstanceDetail,
    failures: { 404: 'Unknown instance' },
  }),
}
