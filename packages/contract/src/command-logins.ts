import type { Static } from 'typebox'
import { access, define } from './endpoint.ts'
import { Pattern, Timestamp } from './fields.ts'
import { SignInAnswer, SignInStarted } from './people.ts'
import { Type } from './type.ts'

export const commandLoginLimits = {
  /** Characters of a host name: 253 by RFC 1035, of which machines use some 60. */
  host: 100,
  /** How long a request for a login waits for a person, who may have to find a second factor. */
  validMinutes: 10,
  /** Seconds between two questions whether a person has allowed the login, as RFC 8628 has them by default. */
  intervalSeconds: 5,
  /** Lifetime of an access token. A copied one is useless after this time, also when nothing is noticed. */
  accessMinutes: 10,
} as const

/** Where a person allows a command line to act for them, below WARDLINE_PUBLIC_URL. */
export const commandLoginPath = '/auth/cli'

const Secret = (description: string) =>
  Pattern('^[A-Za-z0-9_-]{43}$', 'must be 32 random bytes as base64url', { description })

const Token = Secret('Names the session; its SHA-256 is the challenge with which the login began')

/** What the person types is compared without case, hyphen and spaces. */
const LoginCode = Type.Object(
  {
    code: Pattern('^[A-Za-z -]{8,20}$', 'must be the code that the command line shows, such as BCDF-GHJK', {
      description: 'The code that the command line shows',
    }),
  },
  { additionalProperties: false },
)

const NewCommandLogin = Type.Object(
  {
    challenge: Pattern('^[0-9a-f]{64}$', 'must be a SHA-256 in hexadecimal', {
      description: 'SHA-256 of the token with which the login is finished',
    }),
    host: Pattern('^[^\\x00-\\x1f\\x7f]*$', 'must be one line of text', {
      minLength: 1,
      maxLength: commandLoginLimits.host,
      description: 'Name of the machine, as it is shown to the person',
    }),
    loopback: Type.Optional(
      Type.Object(
        {
          port: Type.Integer({ minimum: 1, maximum: 65_535 }),
          state: Secret('Sent back with the code'),
        },
        {
          additionalProperties: false,
          description:
            'The browser is on the same machine: once allowed, it opens http://127.0.0.1:<port>/ with state, a code, without which the login cannot be finished, and iss, the origin of this service: send the code nowhere else. Absent: the person types the code',
        },
      ),
    ),
    confirm: Type.Optional(
      Type.Boolean({
        description:
          'The person confirms that it is them, at the provider or by a passkey, which changes that matter require. Refused for keys, which have nothing to confirm',
      }),
    ),
  },
  { additionalProperties: false },
)

const CommandLoginStarted = Type.Object({
  code: Type.String({ description: 'For the person, such as BCDF-GHJK' }),
  url: Type.String({ description: 'The address to open' }),
  interval_seconds: Type.Integer({ minimum: 1, description: 'Time between two attempts to finish' }),
  expires_at: Timestamp,
})

const CommandLogin = Type.Object({
  host: Type.String({ description: 'As the command line says' }),
  address: Type.String({ description: 'Address from which the command line began the login; empty if unknown' }),
  same_address: Type.Boolean({ description: 'Whether the caller has the same address' }),
  loopback: Type.Boolean({ description: 'Whether the command line waits on the machine of the browser' }),
  confirm: Type.Boolean(),
  created_at: Timestamp,
  expires_at: Timestamp,
})
export type CommandLogin = Static<typeof CommandLogin>

const redirect = Type.Optional(
  Type.String({ description: 'Address of the command line to open; absent where the person typed the code' }),
)

const Access = {
  access: Type.String({
    description: `Sent in X-Monitor-Key, for ${commandLoginLimits.accessMinutes} minutes at most`,
  }),
  access_seconds: Type.Integer({ minimum: 0, description: 'How long it is valid, whatever the clock of the caller' }),
  expires_at: { ...Timestamp, description: 'End of the session' },
}
const AccessRenewed = Type.Object(Access)

const FinishCommandLogin = Type.Object(
  {
    token: Token,
    secret: Secret('Chosen by the caller: renews the access once'),
    code: Type.Optional(Secret('The code with which the browser came to the loopback address')),
  },
  { additionalProperties: false },
)

const RenewAccess = Type.Object(
  {
    token: Token,
    secret: Secret('The current secret of the session'),
    next: Secret('Replaces it. An attempt without an answer is repeated with the same values'),
  },
  { additionalProperties: false },
)

const browserOnly = { 403: 'The request does not come from a browser session on the page of this service' }
const unknownCode = {
  404: 'No login waits under this code',
  429: 'Too many wrong codes; retry after Retry-After seconds',
}

export const commandLoginEndpoints = {
  startCommandLogin: define({
    method: 'POST',
    path: '/api/command-logins',
    access: 'open',
    feature: 'people',
    summary: 'Ask for a session of the command line, which a person has to allow in a browser',
    body: NewCommandLogin,
    status: 201,
    reply: CommandLoginStarted,
    failures: { 409: 'The challenge was used', 429: 'Too many logins wait; retry after Retry-After seconds' },
  }),
  findCommandLogin: define({
    method: 'POST',
    path: '/api/command-logins/find',
    access: access.readers,
    teams: 'global',
    feature: 'people',
    summary: 'Get which command line shows a code',
    body: LoginCode,
    status: 200,
    reply: CommandLogin,
    failures: { ...browserOnly, ...unknownCode },
  }),
  approveCommandLogin: define({
    method: 'POST',
    path: '/api/command-logins/approve',
    access: access.readers,
    teams: 'global',
    feature: 'people',
    summary:
      'Allow a command line to act for the caller. A person signs in at the provider once more, so that the session of the command line is evaluated by itself',
    body: LoginCode,
    status: 200,
    reply: Type.Object({ redirect_url: redirect, sign_in: Type.Optional(SignInStarted) }),
    failures: { ...browserOnly, ...unknownCode, 409: 'The login was allowed already' },
  }),
  signInCommandLogin: define({
    method: 'POST',
    path: '/api/command-logins/sign-in',
    access: access.readers,
    teams: 'global',
    feature: 'people',
    summary: 'Allow a command line with the answer of the provider, once',
    body: SignInAnswer,
    status: 200,
    reply: Type.Object({ redirect_url: redirect }),
    failures: {
      ...browserOnly,
      401: 'The attempt was used, has expired or began in another browser; or the answer of the provider is not valid',
      409: 'Another person signed in at the provider, or the login was allowed already',
      503: 'The provider does not answer',
    },
  }),
  denyCommandLogin: define({
    method: 'POST',
    path: '/api/command-logins/deny',
    access: access.readers,
    teams: 'global',
    feature: 'people',
    summary: 'Refuse a login of a command line',
    body: LoginCode,
    status: 200,
    reply: Type.Object({ redirect_url: redirect }),
    failures: { ...browserOnly, ...unknownCode },
  }),
  finishCommandLogin: define({
    method: 'POST',
    path: '/api/command-logins/finish',
    access: 'open',
    feature: 'people',
    summary: 'Get the access token of a login that a person has allowed, once',
    body: FinishCommandLogin,
    status: 200,
    reply: Type.Object({
      pending: Type.Boolean({ description: 'Whether no person has allowed it yet' }),
      session: Type.Optional(AccessRenewed),
    }),
    failures: {
      401: 'The login was refused, has expired or was finished; or the code is not that of the browser',
      429: 'Asked more often than every interval_seconds; retry after Retry-After seconds',
    },
  }),
  renewCommandLogin: define({
    method: 'POST',
    path: '/api/command-logins/renew',
    access: 'open',
    feature: 'people',
    summary:
      'Get the next access token of a session of the command line. Any other secret than the current one ends the session: one of two who have it is a thief',
    body: RenewAccess,
    status: 200,
    reply: AccessRenewed,
    failures: {
      401: 'The session has ended, or the secret was replaced before',
      429: 'Too many invalid keys came from this address; retry after Retry-After seconds',
    },
  }),
}
