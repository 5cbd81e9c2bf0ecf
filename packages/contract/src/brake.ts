import type { Static } from 'typebox'
import { access, define } from './endpoint.ts'
import { Count, choice, limits, NotBlank, nullable, Timestamp, Uuid } from './fields.ts'
import { Type } from './type.ts'

export const BrakeView = Type.Object({
  engaged: Type.Boolean({ description: 'While true, nothing is suspended automatically' }),
  engaged_at: nullable(Timestamp),
  engaged_by_event: nullable({ ...Uuid, description: 'The event whose suspension was the first one refused' }),
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
    fleet: {
      ...Count,
      description:
        'Instances that sent a heartbeat within 24 hours; of a key for a prefix no more than it had 24 hours ago',
    },
    fleet_max: { ...Count, description: 'Maximum number suspended automatically at a time' },
  }),
  last_minute: { ...Count, description: 'Automatic suspensions within the last minute' },
  suspended: { ...Count, description: 'Instances that are suspended automatically now' },
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
    teams: 'refused',
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
