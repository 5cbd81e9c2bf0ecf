import type { Static } from 'typebox'
import { access, define, keyScopes, scopes } from './endpoint.ts'
import { choice, InstancePattern, limits, NotBlank, nullable, Pattern, Timestamp } from './fields.ts'
import { Tags } from './instances.ts'
import { Type } from './type.ts'

const quota = (description: string) => Type.Optional(nullable(Type.Integer({ minimum: 1, maximum: 1e9, description })))

/** Limits per key and process. Absent: the default of the key's scope; null: no limit. */
export const KeyQuotas = Type.Object(
  {
    events_per_second: quota('Events of severity info and warning'),
    critical_events_per_second: quota('Events of severity critical and breach, which count here only'),
    bytes_per_second: quota('Bytes of events of severity info and warning'),
    checks_per_second: quota('Decoy checks'),
    new_instances_per_hour: quota('Heartbeats of instances that the service does not know yet'),
    streams: quota('Streams open at the same time'),
  },
  { description: 'Absent: the default of the scope; null: no limit' },
)
export type KeyQuotas = Static<typeof KeyQuotas>
export type QuotaName = keyof KeyQuotas
export const quotaNames = Object.keys(KeyQuotas.properties) as QuotaName[]

const KeyId = Pattern('^[0-9a-z]{8}$', 'must be a key id', { description: 'The public part of a key' })

const ModelPattern = Pattern(
  '^[a-z0-9][a-z0-9_-]{0,39}/([!-)+-~]{1,200}|[!-)+-~]{0,199}\\*)$',
  'must be an upstream, a slash, and a model or the beginning of one followed by *, such as openai/gpt-5*',
  { examples: ['openai/gpt-5*', 'anthropic/*'] },
)

export const NewKey = Type.Object({
  scope: choice(keyScopes),
  name: Type.Optional(
    NotBlank({
      minLength: 1,
      maxLength: limits.keyName,
      description: 'Who holds the key; default for scope agent: its instances; required for the others',
    }),
  ),
  instances: Type.Optional(
    Type.Array(InstancePattern, {
      minItems: 1,
      maxItems: 100,
      description: 'Required for scope agent, refused for the others',
    }),
  ),
  expires_at: Type.Optional(Type.String({ format: 'date-time', maxLength: 40 })),
  quotas: Type.Optional(KeyQuotas),
  max_instances: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: limits.maxKeyInstances,
      description: `Maximum number of instances that the key may register; scope agent only; default: ${limits.keyInstances}`,
    }),
  ),
  tags: Type.Optional(
    Tags(
      'Tags of operators for every instance that registers with the key; scope agent only. No agent can remove them',
    ),
  ),
  approves: Type.Optional({
    ...Tags(
      'The key approves, denies and allows only calls of agents with at least one of these tags, set by operators or by the key of the agent; scope operator only; default: all agents',
    ),
    minItems: 1,
  }),
  tags_scope: Type.Optional({
    ...Tags(
      'The key sees and reaches only agents with at least one of these tags, set by operators or by the key of the agent; scopes viewer and operator only; default: all agents',
    ),
    minItems: 1,
  }),
  models: Type.Optional(
    Type.Array(ModelPattern, {
      minItems: 1,
      maxItems: limits.keyModels,
      description: 'Models that the key may call through the model gateway; scope agent only; default: all',
    }),
  ),
  supervises: Type.Optional(
    Type.Boolean({
      description:
        'For a supervisor, which holds the processes of its agent: only such a key proves that a suspended agent is held. The agent must not have it; scope agent only; default: false',
    }),
  ),
})
export type NewKey = Static<typeof NewKey>

export const KeyView = Type.Object({
  id: KeyId,
  scope: choice(keyScopes),
  name: Type.String(),
  instances: Type.Array(Type.String()),
  max_instances: nullable(
    Type.Integer({ description: 'Instances that the key may register; null for scopes that have no such limit' }),
  ),
  tags: Type.Array(Type.String(), { description: 'Tags of instances that register with the key' }),
  approves: nullable(
    Type.Array(Type.String(), { description: 'Tags of the agents whose approvals the key decides; null: all agents' }),
  ),
  tags_scope: nullable(
    Type.Array(Type.String(), { description: 'Tags to whose agents the key is limited; null: all agents' }),
  ),
  models: nullable(
    Type.Array(Type.String(), { description: 'Models that the key may call through the model gateway; null: all' }),
  ),
  supervises: Type.Boolean({
    description: 'The key is for a supervisor: only such a key proves that an agent is held',
  }),
  created_at: Timestamp,
  expires_at: nullable(Timestamp),
  revoked_at: nullable(Timestamp),
  last_used_at: nullable(Timestamp),
  quotas: KeyQuotas,
})
export type KeyView = Static<typeof KeyView>

export const KeyCreated = Type.Object({
  ok: Type.Literal(true),
  id: KeyId,
  scope: choice(keyScopes),
  key: Type.String({ description: 'The key; shown only here' }),
})
export type KeyCreated = Static<typeof KeyCreated>

const KeyList = Type.Object({ keys: Type.Array(KeyView) })
const KeyParams = Type.Object({ id: KeyId })
export const KeyRotation = Type.Object({
  overlap_seconds: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: 30 * 86_400,
      description: 'How long the old key stays valid; default: one day',
    }),
  ),
})
const KeyQuotasSet = Type.Object({ ok: Type.Literal(true), id: KeyId, quotas: KeyQuotas })
const KeyRevoked = Type.Object({ ok: Type.Literal(true), id: KeyId })

/** Request header with the secret of a browser session, without which its cookie is refused. */
export const sessionHeader = 'wardline-session'

/** Request header of a hidden page: what it reads by itself is no use of its session, which then ends after 30 minutes. */
export const hiddenHeader = 'wardline-hidden'

export const SessionCreated = Type.Object({
  ok: Type.Literal(true),
  scope: choice(scopes),
  secret: Type.String({
    description: `Sent in the header ${sessionHeader} with every request of the session; shown only here. Keep it where only scripts of this origin can read it`,
  }),
  expires_at: Timestamp,
})

/** The key or person of a session. */
const SessionView = Type.Object({
  key_id: Type.String({ description: 'Id of the key, person or passkey' }),
  scope: choice(scopes),
  name: Type.String({ description: 'Name of the key, person or passkey' }),
  tags: Type.Optional(
    Type.Array(Type.String(), { description: 'Tags of operators to whose agents it is limited; absent: all agents' }),
  ),
  person: Type.Optional(
    Type.Object(
      {
        id: Type.String(),
        name: Type.String(),
        issuer: Type.String(),
        role: choice(scopes),
        tags: nullable(
          Type.Array(Type.String(), {
            description: 'Tags of operators to whose agents it is limited; null: all agents',
          }),
        ),
      },
      { description: 'Who signed in; absent for keys' },
    ),
  ),
  passkey: Type.Optional(
    Type.Literal(true, { description: 'A passkey of the local admin signed in; id and name are those of the passkey' }),
  ),
  confirms_by: Type.Optional(
    choice(
      ['provider', 'passkey'],
      'How the session is confirmed before changes that matter; absent: no confirmation is needed',
    ),
  ),
  authenticated_at: Type.Optional({
    ...Timestamp,
    description: 'When the provider last authenticated the person, or the local admin last showed key or passkey',
  }),
  trace_url: Type.Optional(
    Type.String({
      description: 'Address of a trace in a tracing tool, with `{trace_id}` for its id: WARDLINE_TRACE_URL',
    }),
  ),
})

const LoginLink = Type.Object({
  ok: Type.Literal(true),
  url: Type.String({
    description:
      'The address to open in a browser; what follows # is the code. Below WARDLINE_PUBLIC_URL when it is set',
  }),
  expires_at: Timestamp,
})

const LoginCode = Type.Object({
  code: Pattern('^[A-Za-z0-9_-]{43}$', 'must be the code of a login link', {
    description: 'What follows # in the link',
  }),
})

const signInFailures = { 429: 'The key signed in too often; retry after Retry-After seconds' }
const linkFailures = {
  401: 'The link was used, has expired or is invalid',
  403: 'The page of another site sent it',
  429: 'Too many invalid keys or codes came from this address; retry after Retry-After seconds',
}

export const keyEndpoints = {
  listKeys: define({
    method: 'GET',
    path: '/api/keys',
    access: access.admins,
    feature: 'keys',
    summary: 'List keys, never their secrets',
    status: 200,
    reply: KeyList,
  }),
  createKey: define({
    method: 'POST',
    path: '/api/keys',
    access: access.admins,
    feature: 'keys',
    summary: 'Create a key',
    body: NewKey,
    status: 201,
    reply: KeyCreated,
  }),
  rotateKey: define({
    method: 'POST',
    path: '/api/keys/:id/rotate',
    access: access.admins,
    feature: 'keys',
    summary: 'Replace a key; the old one stays valid for the overlap',
    params: KeyParams,
    body: KeyRotation,
    status: 201,
    reply: KeyCreated,
    failures: { 404: 'Unknown key' },
  }),
  setKeyQuotas: define({
    method: 'PUT',
    path: '/api/keys/:id/quotas',
    access: access.admins,
    feature: 'keys',
    summary: 'Replace the quotas of a key; every process applies them within one second',
    params: KeyParams,
    body: KeyQuotas,
    status: 200,
    reply: KeyQuotasSet,
    failures: { 404: 'Unknown key' },
  }),
  revokeKey: define({
    method: 'DELETE',
    path: '/api/keys/:id',
    access: access.admins,
    feature: 'keys',
    summary: 'Revoke a key; every process refuses it within one second',
    params: KeyParams,
    status: 200,
    reply: KeyRevoked,
    failures: { 404: 'Unknown key' },
  }),
  createSession: define({
    method: 'POST',
    path: '/api/session',
    access: access.readers,
    teams: 'global',
    feature: 'keys',
    summary: `Exchange a key for a browser session: an HttpOnly, SameSite=Strict cookie and the secret for the header ${sessionHeader}. It ends after 30 minutes without use, and after 12 hours`,
    status: 201,
    reply: SessionCreated,
    failures: signInFailures,
  }),
  getSession: define({
    method: 'GET',
    path: '/api/session',
    access: access.readers,
    teams: 'global',
    feature: 'keys',
    summary: 'Get the id, scope and name of the key, or of the key that the browser session acts with',
    status: 200,
    reply: SessionView,
  }),
  createLoginLink: define({
    method: 'POST',
    path: '/api/login-links',
    access: access.readers,
    teams: 'global',
    feature: 'keys',
    summary:
      'Make a link that opens one browser session with the key, within 10 minutes; an earlier unused link of the key ends',
    status: 201,
    reply: LoginLink,
    failures: signInFailures,
  }),
  previewLoginLink: define({
    method: 'POST',
    path: '/api/login/preview',
    access: 'open',
    feature: 'keys',
    summary: 'Get the id, scope and name of the key of a login link without using the link',
    body: LoginCode,
    status: 200,
    reply: SessionView,
    failures: linkFailures,
  }),
  redeemLoginLink: define({
    method: 'POST',
    path: '/api/login',
    access: 'open',
    feature: 'keys',
    summary: 'Exchange the code of a login link for a browser session, once',
    body: LoginCode,
    status: 201,
    reply: SessionCreated,
    failures: { ...linkFailures, 409: 'The request comes from a browser that is signed in; the link stays valid' },
  }),
  deleteSession: define({
    method: 'DELETE',
    path: '/api/session',
    access: access.readers,
    teams: 'global',
    feature: 'keys',
    summary: 'Log out: end this session, other sessions of the same browser and key, and their streams',
    status: 200,
    reply: Type.Object({
      ok: Type.Literal(true),
      logout_url: Type.Optional(
        Type.String({ description: 'Address to open, which ends the session at the provider; absent for keys' }),
      ),
    }),
  }),
}
