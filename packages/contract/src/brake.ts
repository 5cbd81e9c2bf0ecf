import type { Static } from 'typebox'
import { access, define } from './endpoint.ts'
import { Count, choice, limits, NotBlank, nullable, Timestamp, Uuid } from './fields.ts'
import { Type } from './type.ts'

const ofAll = (description: string) =>
  nullable({ ...Count, description: `${description}; null for callers limited to a team` })

export const BrakeView = Type.Object({
  engaged: Type.Boolean({ description: 'While true, nothing is suspended automatically' }),
  engaged_at: nullable(Timestamp),
  engaged_by_event: nullable({
    ...Uuid,
    description: 'The event whose suspension was the first one refused; null for callers limited to a team',
  }),
  refused: { ...Count, description: 'Automatic suspensions that were refused since it was engaged' },
  refused_instances: Type.Array(
    Type.Object({
      instance_id: Type.String(),
      count: Count,
      event_id: { ...Uuid, description: 'The last event that would have suspended it' },
      at: Timestamp,
    }),
    { description: `At most ${limits.listedRefusals}, newest first; further ones are counted in refused only` },
  ),
  limits: Type.Object({
    per_minute: { ...Count, description: 'WARDLINE_AUTO_SUSPEND_PER_MINUTE' },
    fleet_percent: { ...Count, description: 'WARDLINE_AUTO_SUSPEND_FLEET_PERCENT' },
    fleet_min: { ...Count, description: 'WARDLINE_AUTO_SUSPEND_FLEET_MIN' },
    fleet: ofAll(
      'Instances that sent a heartbeat within 24 hours; of a key for a prefix no more than it had 24 hours ago',
    ),
    fleet_max: ofAll('Maximum number suspended automatically at a time'),
  }),
  last_minute: ofAll('Automatic suspensions within the last minute'),
  suspended: ofAll('Instances that are suspended automatically now'),
})
export type BrakeView = Static<typeof BrakeView>

const BrakeChange = Type.Object(
  {
    action: choice(['release']),
    reason: NotBlank({ maxLength: limits.reason, description: 'Reason; trimmed, and not blank' }),
  },
  { additionalProperties: false },
)

export const brakeEndpoints = {
  getBrake: define({
    method: 'GET',
    path: '/api/brake',
    access: access.readers,
    teams: 'agents',
    feature: 'auto-suspension',
    summary: 'Show the brake of automatic suspensions: whether it is engaged, by what, and whom it left running',
    status: 200,
    reply: BrakeView,
  }),
  changeBrake: define({
    method: 'POST',
    path: '/api/brake',
    access: access.operators,
    teams: 'refused',
    feature: 'auto-suspension',
    summary: 'Release the brake: automatic suspensions are made again. It never releases itself',
    body: BrakeChange,
    status: 200,
    reply: BrakeView,
    failures: { 409: 'The brake is not engaged' },
  }),
}
