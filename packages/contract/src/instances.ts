import { type Static, Type } from 'typebox'
import { choice, InstanceId, limits, nullable, Timestamp } from './fields.ts'

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
  name: Type.String({ minLength: 1, maxLength: limits.name, pattern: '\\S', description: 'Display name' }),
  agent_type: Type.Optional(Type.String({ maxLength: 100 })),
  version: Type.Optional(Type.String({ maxLength: 100, description: 'Version of the agent' })),
  control_version: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: Number.MAX_SAFE_INTEGER,
      description: 'Control version that the agent applied',
    }),
  ),
  fail_mode: Type.Optional(choice(['open', 'closed'])),
  boot_id: Type.Optional(Type.String({ maxLength: 100, description: 'New at every start of the agent' })),
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
    confirmed: Type.Boolean({ description: 'The agent applied the current version' }),
  }),
})
export type InstanceDetail = Static<typeof InstanceDetail>
