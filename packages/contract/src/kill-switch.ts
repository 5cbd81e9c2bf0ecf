import { type Static, Type } from 'typebox'
import { choice, InstanceId, limits, nullable, Timestamp } from './fields.ts'

export const KillRequest = Type.Object({
  reason: Type.String({
    maxLength: limits.reason,
    pattern: '\\S',
    description: 'Why; trimmed, and not blank',
  }),
})

export const KillReply = Type.Object({
  ok: Type.Literal(true),
  instance_id: InstanceId,
  status: Type.Literal('suspended'),
})
export const ResumeReply = Type.Object({
  ok: Type.Literal(true),
  instance_id: InstanceId,
  status: Type.Literal('active'),
})

export const KillSwitchState = Type.Object({ suspended: Type.Boolean(), reason: nullable(Type.String()) })
export type KillSwitchState = Static<typeof KillSwitchState>

/** What travels on the control channel and on GET /api/instances/:instanceId/control. */
export const ControlMessage = Type.Object({
  instance_id: InstanceId,
  action: choice(['suspend', 'resume']),
  reason: Type.Optional(Type.String({ description: 'Carried on suspend' })),
  version: Type.Integer({
    minimum: 0,
    description: 'Grows by one with every kill and resume; only a higher one counts',
  }),
  issued_at: Timestamp,
  signature: Type.String({
    description:
      'Hex HMAC-SHA256 over instance_id, action, reason, version and issued_at, each followed by a line feed',
  }),
})
export type ControlMessage = Static<typeof ControlMessage>

export const ControlAck = Type.Object({
  version: Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, description: 'The control version applied' }),
})
