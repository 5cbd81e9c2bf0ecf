import type { Static } from 'typebox'
import { access, define, scopes } from './endpoint.ts'
import { choice, nullable, Ok, Pattern, Timestamp } from './fields.ts'
import { Tags } from './instances.ts'
import { SessionCreated } from './keys.ts'
import { Type } from './type.ts'

export const peopleLimits = {
  /** Groups of a person that are read: an Entra token lists 200. */
  groups: 1_000,
  group: 256,
  /** Rows of the table of roles: more teams than a company gives a role here. */
  mappings: 500,
  /** Bytes of the answer of a provider in the callback address; codes of 2 KiB are seen. */
  callback: 8 * 1024,
  /** Bytes of a logout token, a signed JWT of a few claims. */
  logoutToken: 16 * 1024,
  /** People listed at once, those who signed in last first. */
  listed: 1_000,
  /** Open sessions of a person that are listed. */
  sessions: 100,
} as const

/** Roles of people: the scopes of keys that are not for agents. */
export const personRoles = scopes.filter((scope) => scope !== 'agent')
export type PersonRole = Exclude<(typeof scopes)[number], 'agent'>
const Role = choice(personRoles as PersonRole[])

/** Where the pages of signing in are, below WARDLINE_PUBLIC_URL. The provider is configured with the second. */
export const signInPaths = { start: '/auth/login', callback: '/auth/callback' } as const

const PersonId = Pattern('^person-[0-9a-z]{16}$', 'must be the id of a person', {
  description: 'Stands wherever the id of a key stands, such as in the audit log',
})

const ofOne = (description: string) =>
  Type.Optional(
    Pattern('^[^\\x00-\\x1f\\x7f]*$', 'must be one line of text', {
      minLength: 1,
      maxLength: peopleLimits.group,
      description,
    }),
  )

export const RoleMapping = Type.Object(
  {
    group: ofOne('A group as the provider sends it, compared exactly'),
    email: ofOne('In place of a group: a mail address that the provider has verified, compared without case'),
    role: Role,
    tags: Type.Optional({
      ...Tags(
        'The role is for agents with at least one of these tags, set by operators or by the key of the agent; not for role admin; default: all agents',
      ),
      minItems: 1,
    }),
  },
  { additionalProperties: false, description: 'Has either group or email' },
)
export type RoleMapping = Static<typeof RoleMapping>

const Mappings = Type.Array(RoleMapping, { maxItems: peopleLimits.mappings })
const RolesVersion = Type.Integer({
  minimum: 0,
  description: 'Version of the stored table, one more with each change; 0: it was never changed',
})
const RoleMappings = Type.Object({
  owner: choice(
    ['file', 'service'],
    'file = WARDLINE_OIDC_ROLES_FILE, changed there; service = stored, changed by PUT /api/roles',
  ),
  mappings: Mappings,
  version: RolesVersion,
})
export type RoleMappings = Static<typeof RoleMappings>

const Person = Type.Object({
  id: PersonId,
  name: Type.String(),
  email: nullable(Type.String({ description: 'For people; identifies nobody' })),
  issuer: Type.String(),
  subject: Type.String({ description: 'With the issuer, identifies the person' }),
  role: nullable({ ...Role, description: 'Null: no group has a role any more' }),
  tags: nullable(
    Type.Array(Type.String(), {
      description: 'Tags of operators to whose agents the person is limited; null: all agents',
    }),
  ),
  role_by: nullable(Type.String({ description: 'The group or mail address that gave the role' })),
  first_seen_at: Timestamp,
  signed_in_at: { ...Timestamp, description: 'When the person last signed in' },
  evaluated_at: { ...Timestamp, description: 'When the provider last said the groups' },
  sessions: Type.Integer({ minimum: 0, description: 'Open sessions' }),
})
export type Person = Static<typeof Person>

const Session = Type.Object({
  id: Type.String({ description: 'Public part of a session' }),
  ends: Type.Array(Type.String(), {
    description:
      'Ids of the sessions that end with this one: of a browser its other sessions, and the command lines that it allowed',
  }),
  current: Type.Boolean({ description: 'Whether the request came through it' }),
  device: nullable(Type.String({ description: 'User agent of the browser that signed in, as it reported itself' })),
  host: nullable(Type.String({ description: 'Name of the machine of a command line, as it said; null for browsers' })),
  address: nullable(Type.String({ description: 'Address from which the session was opened' })),
  created_at: Timestamp,
  last_used_at: { ...Timestamp, description: 'To about a minute' },
  expires_at: Timestamp,
})
export type OpenSession = Static<typeof Session>

const SignIn = Type.Object({
  provider: nullable(
    Type.Object({ name: Type.String({ description: 'WARDLINE_OIDC_NAME, else the host of the issuer' }) }),
  ),
  people_only: Type.Boolean({ description: 'Whether keys open no sessions, except the local admin key' }),
  passkeys: Type.Boolean({ description: 'Whether the local admin has a passkey that can be used at this address' }),
})
export type SignIn = Static<typeof SignIn>

export const SignInStarted = Type.Object({
  url: Type.String({ description: 'Address at the provider to open' }),
  secret: Type.String({
    description:
      'Belongs to this attempt: keep it where only scripts of this origin and tab can read it, and finish with it',
  }),
})

export const SignInAnswer = Type.Object(
  {
    answer: Pattern('^[!-~]*$', 'may contain only visible ASCII characters, and no spaces', {
      minLength: 1,
      maxLength: peopleLimits.callback,
      description: 'The query with which the provider returned the browser, without the question mark',
    }),
    secret: Pattern('^v1\\.[A-Za-z0-9_-]{1,1000}$', 'must be the secret of the attempt'),
  },
  { additionalProperties: false },
)

const PersonParams = Type.Object({ id: PersonId })
const SessionParams = Type.Object({
  id: Pattern('^[0-9a-f]{32}$', 'must be the id of a session'),
})

const fromOtherSite = { 403: 'The page of another site sent it' }

export const peopleEndpoints = {
  getSignIn: define({
    method: 'GET',
    path: '/api/sign-in',
    access: 'open',
    feature: 'people',
    summary: 'Get how people sign in',
    status: 200,
    reply: SignIn,
  }),
  setSignIn: define({
    method: 'PUT',
    path: '/api/sign-in',
    access: access.admins,
    feature: 'people',
    summary: 'Let only people open sessions, and the local admin key in an emergency; keys of programs work as before',
    body: Type.Object({ people_only: Type.Boolean() }, { additionalProperties: false }),
    status: 200,
    reply: SignIn,
    failures: { 409: 'No provider is configured, or no person with role admin has signed in yet' },
  }),
  startSignIn: define({
    method: 'POST',
    path: '/api/sign-in/start',
    access: 'open',
    feature: 'people',
    summary: 'Begin to sign in: get the address at the provider',
    query: Type.Object({
      confirm: Type.Optional(
        choice(['true'], 'The provider authenticates the person again, which changes that matter require'),
      ),
    }),
    status: 201,
    reply: SignInStarted,
    failures: {
      ...fromOtherSite,
      409: 'No provider is configured',
      429: 'Too many attempts from this address; retry after Retry-After seconds',
      503: 'The provider does not answer; the local admin key works',
    },
  }),
  finishSignIn: define({
    method: 'POST',
    path: '/api/sign-in/finish',
    access: 'open',
    feature: 'people',
    summary: 'Exchange the answer of the provider for a browser session, once',
    body: SignInAnswer,
    status: 201,
    reply: SessionCreated,
    failures: {
      401: 'The attempt was used, has expired or began in another browser; or the answer of the provider is not valid',
      403: 'The page of another site sent it, or no group of the person has a role',
      409: 'No provider is configured',
      503: 'The provider does not answer; the local admin key works',
    },
  }),
  backchannelLogout: define({
    method: 'POST',
    path: '/auth/backchannel-logout',
    access: 'open',
    feature: 'people',
    summary: 'End the sessions that a logout token of the provider names (OpenID Connect Back-Channel Logout 1.0)',
    rawBody: {
      contentTypes: ['application/x-www-form-urlencoded'],
      description: 'logout_token: a JWT signed by the provider',
    },
    status: 200,
    reply: Ok,
    failures: { 409: 'No provider is configured', 503: 'The keys of the provider cannot be read' },
  }),
  listPeople: define({
    method: 'GET',
    path: '/api/people',
    access: access.admins,
    feature: 'people',
    summary: `List people, at most ${peopleLimits.listed}, those with a role and who signed in last first`,
    status: 200,
    reply: Type.Object({ people: Type.Array(Person) }),
  }),
  getPerson: define({
    method: 'GET',
    path: '/api/people/:id',
    access: access.admins,
    feature: 'people',
    summary: 'Get a person with their open sessions',
    params: PersonParams,
    status: 200,
    reply: Type.Object({
      person: Person,
      groups: Type.Array(Type.String(), { description: 'Groups at the last evaluation' }),
      sessions: Type.Array(Session),
    }),
    failures: { 404: 'Unknown person' },
  }),
  endPersonSessions: define({
    method: 'DELETE',
    path: '/api/people/:id/sessions',
    access: access.admins,
    feature: 'people',
    summary: 'End all sessions of a person and their streams; they may sign in again while the provider lets them',
    params: PersonParams,
    status: 200,
    reply: Type.Object({ ok: Type.Literal(true), ended: Type.Integer({ minimum: 0 }) }),
    failures: { 404: 'Unknown person' },
  }),
  listOwnSessions: define({
    method: 'GET',
    path: '/api/sessions',
    access: access.readers,
    teams: 'global',
    feature: 'people',
    summary: `List the open sessions of the caller, at most ${peopleLimits.sessions}`,
    status: 200,
    reply: Type.Object({ sessions: Type.Array(Session) }),
  }),
  endSession: define({
    method: 'DELETE',
    path: '/api/sessions/:id',
    access: access.readers,
    teams: 'global',
    feature: 'people',
    summary: 'End a session of the caller, and those that end with it; scope admin ends any',
    params: SessionParams,
    status: 200,
    reply: Ok,
    failures: { 404: 'Unknown session, or the session of another' },
  }),
  getRoleMappings: define({
    method: 'GET',
    path: '/api/roles',
    access: access.admins,
    feature: 'people',
    summary: 'Get which groups have which role',
    status: 200,
    reply: RoleMappings,
  }),
  setRoleMappings: define({
    method: 'PUT',
    path: '/api/roles',
    access: access.admins,
    feature: 'people',
    summary: 'Replace which groups have which role; open sessions are evaluated again within ten minutes',
    body: Type.Object(
      { mappings: Mappings, version: { ...RolesVersion, description: 'Version of the table that is replaced' } },
      { additionalProperties: false },
    ),
    status: 200,
    reply: RoleMappings,
    failures: {
      409: 'The table has another version than `version`: read it again. Or WARDLINE_OIDC_ROLES_FILE has it',
    },
  }),
}
