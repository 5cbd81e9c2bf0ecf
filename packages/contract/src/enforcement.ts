import type { Static } from 'typebox'
import { channelKinds } from './channel-kinds.ts'
import { access, define } from './endpoint.ts'
import { Count, choice, InstancePattern, limits, NotBlank, nullable, Pattern, Timestamp } from './fields.ts'
import { Type } from './type.ts'

const enforcementActions = ['suspend', 'resume'] as const
export type EnforcementAction = (typeof enforcementActions)[number]

const PointName = Pattern('^[a-z0-9_.-]+$', 'may contain only lower-case letters, digits, _, . and -', {
  maxLength: limits.tag,
  description: 'Lower-case letters, digits, _, . and -',
})
const TagPattern = Pattern('^[a-z0-9_.:-]+\\*?$', 'must be a tag, or a prefix followed by *', {
  maxLength: limits.tag + 1,
})
const { url, secret } = channelKinds.webhook.settings.properties
const patterns = { minItems: 1, maxItems: limits.enforcementPatterns }

/** One entry of the operator's file: a way to stop agents from outside. */
export const EnforcementPointSettings = Type.Object(
  {
    name: PointName,
    url,
    secret: Type.Unsafe<string>(secret),
    tags: Type.Optional(Type.Array(TagPattern, patterns)),
    instances: Type.Optional(Type.Array(InstancePattern, patterns)),
    actions: Type.Optional(Type.Array(choice(enforcementActions), { minItems: 1, maxItems: 2 })),
  },
  { additionalProperties: false },
)
export type EnforcementPointSettings = Static<typeof EnforcementPointSettings>

/** Body sent to an enforcement point, signed by Standard Webhooks 1.0. */
export interface EnforcementRequest {
  /** `test` changes nothing. */
  action: EnforcementAction | 'test'
  /** Null for a test, as are all following fields except `tags` and `at`. */
  instance_id: string | null
  /** Control version. It only increases, so a lower one is outdated. */
  version: number | null
  reason: string | null
  containment_id: string | null
  tags: string[]
  /** When it was requested. */
  at: string
}

const callStates = ['pending', 'confirmed', 'failed', 'superseded'] as const
export type EnforcementCallState = (typeof callStates)[number]

const status = nullable(Type.Integer({ description: 'HTTP status of the last answer; null = no answer' }))
const fault = nullable(Type.String({ description: 'Why the last attempt did not count; null after a success' }))

/** State of one enforcement point's call for one suspension. */
export const EnforcementCall = Type.Object({
  point: Type.String({ description: 'Name of the enforcement point' }),
  state: choice(
    callStates,
    'pending: it is called again; confirmed: it answered 2xx, which says nothing about the agent; failed: the last attempt failed; superseded: the agent was resumed before it confirmed',
  ),
  attempts: Count,
  confirmed_at: nullable(Timestamp),
  last_status: status,
  last_error: fault,
})
export type EnforcementCall = Static<typeof EnforcementCall>

/** Call counts of a containment. */
export const EnforcementCounts = Type.Object(
  {
    calls: { ...Count, description: 'Calls to enforcement points, without those that a later change superseded' },
    confirmed: { ...Count, description: 'Calls that were answered with 2xx' },
    failed: { ...Count, description: 'Calls whose last attempt failed' },
  },
  { description: 'Calls to enforcement points; while any is not confirmed, the containment is partial' },
)
export type EnforcementCounts = Static<typeof EnforcementCounts>

const listOf = (description: string) =>
  nullable(Type.Array(Type.String(), { description: `${description}; null = all` }))

const EnforcementPoint = Type.Object({
  name: Type.String(),
  host: Type.String({ description: 'Host and port of its URL; path and secret are never shown' }),
  actions: Type.Array(choice(enforcementActions)),
  instances: listOf('Instance ids or prefixes that it is called for'),
  tags: listOf('Tags or prefixes of tags; it is called for instances that have one of them'),
  health: choice(
    ['unused', 'ok', 'failing'],
    'unused: no call was attempted yet; ok: the last attempt was answered with 2xx; failing: it was not. Tests do not count',
  ),
  pending: { ...Count, description: 'Calls that are not answered yet' },
  failed: { ...Count, description: 'Calls whose last attempt failed, and that no later change superseded' },
  last_attempt_at: nullable(Timestamp),
  last_confirmed_at: nullable(Timestamp),
  last_status: status,
  last_error: fault,
})
export type EnforcementPoint = Static<typeof EnforcementPoint>

const EnforcementPoints = Type.Object({ points: Type.Array(EnforcementPoint) })

const EnforcementTested = Type.Object({
  point: Type.String(),
  ok: Type.Boolean({ description: 'Whether it answered 2xx' }),
  status,
  error: fault,
  duration_ms: Count,
})
export type EnforcementTested = Static<typeof EnforcementTested>

export const enforcementEndpoints = {
  listEnforcementPoints: define({
    method: 'GET',
    path: '/api/enforcement-points',
    access: access.readers,
    teams: 'refused',
    feature: 'enforcement',
    summary: 'List the enforcement points of WARDLINE_ENFORCEMENT_FILE with their health',
    status: 200,
    reply: EnforcementPoints,
  }),
  testEnforcementPoint: define({
    method: 'POST',
    path: '/api/enforcement-points/:name/test',
    access: access.operators,
    teams: 'refused',
    feature: 'enforcement',
    summary: 'Call an enforcement point with `action: "test"`, which changes nothing, and return its answer',
    params: Type.Object({ name: NotBlank({ maxLength: limits.tag }) }),
    status: 200,
    reply: EnforcementTested,
    failures: { 404: 'Unknown enforcement point' },
  }),
}
