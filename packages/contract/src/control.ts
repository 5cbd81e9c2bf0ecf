import type { Static } from 'typebox'
import { access, define } from './endpoint.ts'
import {
  choice,
  Digits,
  InstanceId,
  InstanceParams,
  Instant,
  limits,
  NotBlank,
  nullable,
  Ok,
  Pattern,
  Timestamp,
  UpTo,
  Uuid,
} from './fields.ts'
import { decoysHeader } from './instances.ts'
import { policyHeader, policyHeaderText } from './policies.ts'
import { SupervisorResult, supervisorHeader, supervisorHeaderText } from './supervisors.ts'
import { Type } from './type.ts'

const KillRequest = Type.Object({
  reason: NotBlank({ maxLength: limits.reason, description: 'Reason; trimmed, and not blank' }),
})

const KillReply = Type.Object({
  ok: Type.Literal(true),
  instance_id: InstanceId,
  status: Type.Literal('suspended'),
})
const ResumeReply = Type.Object({
  ok: Type.Literal(true),
  instance_id: InstanceId,
  status: Type.Literal('active'),
})

export const KillSwitchState = Type.Object({ suspended: Type.Boolean(), reason: nullable(Type.String()) })
export type KillSwitchState = Static<typeof KillSwitchState>

/** Message on the control channel and on GET /api/instances/:instanceId/control. */
export const ControlMessage = Type.Object({
  instance_id: InstanceId,
  action: choice(['suspend', 'resume']),
  reason: Type.Optional(Type.String({ description: 'Present on suspend' })),
  version: Type.Integer({
    minimum: 0,
    description: 'Increases by one with every kill and resume; ignore a message whose version is not higher',
  }),
  issued_at: Timestamp,
  signature: Type.String({
    description:
      'Hex HMAC-SHA256 over instance_id, action, reason, version and issued_at, each followed by a line feed',
  }),
  signature_ed25519: Type.Optional(
    Type.String({
      description:
        'Ed25519 (RFC 8032), base64url, by the key of /.well-known/wardline-keys.json, over the line `wardline-control-v1` and instance_id, action, reason (empty on resume), version and issued_at, each followed by a line feed',
    }),
  ),
})
export type ControlMessage = Static<typeof ControlMessage>

/** Kinds of messages on a control stream besides control messages, sent only to clients that request them. */
export const streamedKinds = ['drill', 'policy', 'approval'] as const
export type StreamedKind = (typeof streamedKinds)[number]

const unsigned = 'Not signed: it only says that there is something to fetch, and what is fetched is the truth'

/** Sent on control streams that ask for `policy`, after a change of the policies or of an operator's tags. */
export const PolicyMessage = Type.Object(
  {
    action: Type.Literal('policy'),
    instance_id: InstanceId,
    version: Type.Integer({ minimum: 1, description: 'Version of the policy set; fetch it when a lower one is known' }),
  },
  { description: unsigned },
)
export type PolicyMessage = Static<typeof PolicyMessage>

/** Sent on control streams that ask for `approval`, after people decided a request of the agent. */
export const ApprovalMessage = Type.Object(
  {
    action: Type.Literal('approval'),
    instance_id: InstanceId,
    id: Uuid,
    state: choice(['approved', 'denied']),
  },
  { description: unsigned },
)
export type ApprovalMessage = Static<typeof ApprovalMessage>

const ControlStreamQuery = Type.Object({
  understands: Type.Optional(
    Pattern('^[a-z_]+(,[a-z_]+)*$', 'must be kinds of messages, separated by commas', {
      maxLength: limits.streamedKinds,
      description:
        'Kinds of messages that the client takes besides control messages, separated by commas; unknown ones are ignored. `drill`: harmless messages that test the stream; `policy`: the policies of the agent changed; `approval`: people decided a request of the agent',
    }),
  ),
})

/** Header of poll responses, 200 and 304: `version=<n>; issued_at=<iso>; signature=<base64url>`. */
export const controlHeader = 'x-wardline-control'

/**
 * Header of every answer to an agent's key while the agent is suspended: the control version. It is not signed, so a
 * client that receives it polls at once.
 */
export const suspendedHeader = 'wardline-suspended'

/** JSON Web Key Set (RFC 7517) of Ed25519 keys (RFC 8037). */
export const ControlKeys = Type.Object({
  keys: Type.Array(
    Type.Object({
      kty: Type.Literal('OKP'),
      crv: Type.Literal('Ed25519'),
      x: Type.String({ description: 'The public key, base64url: what agents take as publicKey' }),
      kid: Type.String({ description: 'First 16 hexadecimal digits of the SHA-256 of the key' }),
      use: Type.Literal('sig'),
      alg: Type.Literal('EdDSA'),
    }),
  ),
  evidence_keys: Type.Array(
    Type.Object({
      kid: Type.String({ description: 'First 16 hexadecimal digits of the SHA-256 of the key' }),
      algorithm: Type.Literal('Ed25519'),
      public_key: Type.String({ description: 'base64url' }),
      valid_from: Timestamp,
      valid_until: nullable(Type.String({ description: 'ISO 8601, UTC; null while no end is set' })),
    }),
    {
      description:
        'Keys that signed incident bundles and audit checkpoints, the newest first; keys that were replaced stay listed. None of them signs control messages',
    },
  ),
})
export type EvidenceKey = ControlKeys['evidence_keys'][number]
export type ControlKeys = Static<typeof ControlKeys>

const ControlAck = Type.Object({
  version: Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, description: 'The control version applied' }),
  supervisor: Type.Optional(SupervisorResult),
})

/** A kill or resume as a separate entry beside events in lists, streams and exports. */
export const ControlChange = Type.Object({
  kind: Type.Literal('control', { description: 'Distinguishes it from an event, which has no kind' }),
  seq: Type.Integer({
    minimum: 1,
    description:
      'Position in the audit log: increases in the order of commit, with gaps, and is unrelated to the seq of events',
  }),
  at: Timestamp,
  instance_id: Type.String(),
  action: choice(['suspend', 'resume']),
  reason: nullable(Type.String({ description: 'Null on resume' })),
  version: Type.Integer({ minimum: 0, description: 'The control version of the instance after this change' }),
  actor: Type.String({ description: 'Key id, "system" or "cli"' }),
  actor_name: nullable(
    Type.String({ description: 'Name of the key, also after it was revoked; null when no key acted' }),
  ),
})
export type ControlChange = Static<typeof ControlChange>

export const ControlChangeQuery = Type.Object({
  instance_id: Type.Optional(InstanceId),
  from: Type.Optional(Instant('At or after this ISO 8601 instant')),
  to: Type.Optional(Instant('Before this ISO 8601 instant')),
  after: Type.Optional(Digits('Only changes with a higher seq; the order is still newest first')),
  before: Type.Optional(Digits('Cursor: `next` of the previous page')),
  limit: Type.Optional(UpTo(limits.pageSize, `Changes a page, 1 to ${limits.pageSize}; default: 100`)),
})
export type ControlChangeQuery = Static<typeof ControlChangeQuery>

const ControlChangeList = Type.Object({
  changes: Type.Array(ControlChange),
  next: nullable(Type.String({ description: 'Pass it as `before` for the next page; null on the last page' })),
})

export const killSwitchEndpoints = {
  killInstance: define({
    method: 'POST',
    path: '/api/kill/:instanceId',
    access: access.operators,
    teams: 'agent',
    feature: 'control',
    summary: 'Suspend an instance; takes over a suspension that a rule would end by itself',
    params: InstanceParams,
    body: KillRequest,
    status: 200,
    reply: KillReply,
    failures: { 404: 'Unknown instance' },
  }),
  resumeInstance: define({
    method: 'POST',
    path: '/api/resume/:instanceId',
    access: access.operators,
    teams: 'agent',
    feature: 'control',
    summary: 'Resume a suspended instance',
    params: InstanceParams,
    status: 200,
    reply: ResumeReply,
    failures: {
      404: 'Unknown instance',
      409: 'Its parent is suspended (`parent_suspended`), or a second operator has to confirm: the same request with another key, within 15 minutes',
    },
  }),
  getInstanceStatus: define({
    method: 'GET',
    path: '/api/instances/:instanceId/status',
    access: access.everyone,
    teams: 'agent',
    feature: 'control',
    summary: 'Get whether an instance is suspended; 304 for If-None-Match with the current ETag',
    params: InstanceParams,
    headers: { 'if-none-match': 'ETag of the last answer' },
    status: 200,
    replyHeaders: {
      [decoysHeader]: '`none` while no decoy could match for this caller, so checks are unnecessary; else `some`',
      [policyHeader]: policyHeaderText,
      [controlHeader]:
        '`version=<n>; issued_at=<iso>; signature=<base64url>`, also with 304: signs the state like signature_ed25519 of the control message that leads to it; version 0 is signed as resume',
    },
    reply: KillSwitchState,
    failures: { 404: 'Unknown instance' },
  }),
  streamControl: define({
    method: 'GET',
    path: '/api/instances/:instanceId/control',
    access: access.everyone,
    teams: 'refused',
    feature: 'control',
    summary: 'Stream the control messages of an instance, its current state first',
    params: InstanceParams,
    query: ControlStreamQuery,
    status: 200,
    eventStream: 'Each `data:` line is a control message; a comment line every 30 seconds keeps the connection open',
    failures: {
      404: 'Unknown instance',
      429: 'The key has too many streams open; retry after Retry-After seconds',
      503: 'Too many streams',
    },
  }),
  acknowledgeControl: define({
    method: 'POST',
    path: '/api/instances/:instanceId/ack',
    access: access.agents,
    feature: 'control',
    summary: 'Acknowledge the control version that the agent applied',
    params: InstanceParams,
    body: ControlAck,
    status: 200,
    replyHeaders: { [supervisorHeader]: supervisorHeaderText },
    reply: Ok,
    failures: {
      404: 'Unknown instance',
      429: 'The key claims too many versions that were never issued; retry after Retry-After seconds',
    },
  }),
  listControlChanges: define({
    method: 'GET',
    path: '/api/control-changes',
    access: access.readers,
    teams: 'agents',
    feature: 'control',
    summary: 'List kills and resumes with their actors, newest first',
    query: ControlChangeQuery,
    status: 200,
    reply: ControlChangeList,
    failures: { 503: 'Too many queued searches and lists; retry after Retry-After seconds' },
  }),
  getControlKeys: define({
    method: 'GET',
    path: '/.well-known/wardline-keys.json',
    access: 'open',
    feature: 'control',
    summary: 'Get the public keys that verify control messages and poll answers, and those that verify evidence',
    status: 200,
    reply: ControlKeys,
  }),
}
