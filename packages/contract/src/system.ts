import type { Static } from 'typebox'
import { ChannelView } from './alert-channels.ts'
import { access, define } from './endpoint.ts'
import { Count, choice, nullable, Timestamp } from './fields.ts'
import { Readiness } from './operations.ts'
import { Type } from './type.ts'

const settingSources = ['default', 'environment', 'file'] as const

const Configured = Type.Object({
  name: Type.String({ description: 'Name in the environment' }),
  value: nullable(Type.String({ description: '`set` for a secret, whose value never leaves the process' })),
  is_secret: Type.Boolean(),
  source: choice(settingSources, 'file: read from the file that `<name>_FILE` names'),
  reason: Type.Optional(
    Type.String({ description: 'Why the default is this one, where it depends on other settings' }),
  ),
  meaning: Type.String(),
})
export type Configured = Static<typeof Configured>

const Job = Type.Object({
  name: Type.String(),
  every_ms: Type.Integer({ minimum: 1 }),
  is_running: Type.Boolean(),
  last_success_at: nullable(Timestamp),
  last_failure_at: nullable(Timestamp),
  last_error: nullable(Type.String({ description: 'Of the last failure; the log has more' })),
  next_run_at: Timestamp,
})
export type JobView = Static<typeof Job>

const Storage = Type.Object({
  used_bytes: Type.Integer({ minimum: 0, description: 'Of the data; space of what was deleted does not count' }),
  max_bytes: nullable(Count),
  retention_days: Count,
  events_at_most: Type.Integer({
    minimum: 0,
    description: 'Events from the oldest to the newest; fewer where retention by size removed some between',
  }),
  oldest_event_at: nullable(Timestamp),
  instances: Count,
  max_instances: Count,
})

export const SystemView = Type.Object({
  version: Type.String(),
  health: Readiness,
  warnings: Type.Array(Type.String(), {
    description: 'What of the configuration does not go with what is stored, and how to change it',
  }),
  jobs: Type.Array(Job, { description: 'Of the process that answers, since its start' }),
  channels: Type.Array(ChannelView),
  storage: Storage,
  configuration: Type.Array(Configured),
})
export type SystemView = Static<typeof SystemView>

export const systemEndpoints = {
  getSystem: define({
    method: 'GET',
    path: '/api/system',
    access: access.operators,
    teams: 'refused',
    feature: 'system',
    summary: 'Get health, jobs, channels, storage and the effective configuration, without secrets',
    status: 200,
    reply: SystemView,
  }),
}
