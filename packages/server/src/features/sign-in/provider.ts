import { signInPaths } from '@wardline/contract'
import type * as OpenidClient from 'openid-client'
import type { Configuration, ServerMetadata, TokenEndpointResponse, TokenEndpointResponseHelpers } from 'openid-client'
import { hourMs, minuteMs } from '../../clock.ts'
import type { Config } from '../../config/config.ts'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import { type Claims, readGroups } from '../people/roles.ts'

/** Time for one request to the provider. People wait for it. */
const timeoutSeconds = 10
/** How long the discovery document is used; keys are read again when an unknown one signed. */
const rereadMs = hourMs
/** How long a key is accepted that the provider no longer publishes; openid-client has the same for ID tokens. */
const keysMs = 5 * minuteMs
/** Difference of the clocks that is tolerated. */
export const toleranceSeconds = 30
/** Age of a logout token: it is sent when it is made, and repeated soon or never. */
const logoutTokenAge = '5 minutes'
const logoutEvent = 'http://schemas.openid.net/event/backchannel-logout'

/** Settings of the provider, all of them set. */
export interface ProviderSettings {
  issuer: string
  clientId: string
  clientSecret: string
  scopes: string
  groupsClaim: string
  name: string
  /** Address to which the provider returns browsers. */
  redirect: string
  /** Address to which it returns them after signing out. */
  home: string
}

/** Returns the settings of the provider; undefined if none is configured. */
export function providerSettings(config: Config): ProviderSettings | undefined {
  const { oidcIssuer, oidcClientId, oidcClientSecret, publicUrl } = config
  if (oidcIssuer === undefined || oidcClientId === undefined || oidcClientSecret === undefined) return undefined
  const base = (publicUrl ?? '').replace(/\/+$/, '')
  return {
    issuer: oidcIssuer,
    clientId: oidcClientId,
    clientSecret: oidcClientSecret,
    scopes: config.oidcScopes,
    groupsClaim: config.oidcGroupsClaim,
    name: config.oidcName ?? new URL(oidcIssuer).host,
    redirect: base + signInPaths.callback,
    home: `${base}/login`,
  }
}

/** What belongs to one attempt to sign in. */
export interface Attempt {
  state: string
  nonce: string
  /** PKCE verifier (RFC 7636). */
  verifier: string
}

/** What the provider said of a person. */
export interface Answer {
  subject: string
  /** Claims of the ID token, then of userinfo if the first have no groups. None: a refresh said nothing. */
  sources: Claims[]
  /** When the person proved who they are, in epoch milliseconds; undefined = not said. */
  authenticatedAt: number | undefined
  /** The provider's name of its session. */
  providerSession: string | undefined
  refreshToken: string | undefined
  idToken: string | undefined
}

/** Sessions that a logout token ends. */
export interface LogoutToken {
  subject: string | undefined
  providerSession: string | undefined
  /** In epoch milliseconds. */
  issuedAt: number
}

/** What went wrong inside of openid-client. */
interface Details {
  claim?: unknown
  attribute?: unknown
  claims?: Claims
  /** The time of this machine, in seconds. */
  now?: unknown
}

interface Failure {
  code?: unknown
  error?: unknown
  error_description?: unknown
  status?: unknown
  cause?: Details & { cause?: Details }
}

/** The provider refuses with an error code of OAuth: it answers, and is asked for something that it does not give. */
export class Refusal extends AppError {
  override name = 'Refusal'
  readonly reason: string

  constructor(reason: string, sentence: string) {
    super('unauthorized', sentence)
    this.reason = reason
  }
}

/**
 * Refusals of a refresh that are about the person: RFC 6749, section 5.2, and those of OpenID Connect that Entra sends
 * where a person has to sign in again. All others say nothing about the person, and must not sign out everybody.
 */
const ofPerson = ['invalid_grant', 'interaction_required', 'login_required', 'consent_required']

/** Characters of a provider's text that are shown. */
const shownLength = 200
const shown = (text: unknown): string =>
  typeof text === 'string' ? text.replaceAll(/[^ -~]+/g, ' ').slice(0, shownLength) : ''

const away = (sentence: string) => new AppError('unavailable', sentence, 10)
const invalid = (sentence: string) => new AppError('unauthorized', sentence)

const anotherPerson = () => new Refusal('invalid_grant', 'The provider answered for another person.')

const claimSentences: Record<string, string> = {
  nonce: 'The ID token is of another attempt to sign in.',
  aud: 'The ID token is for another client: compare WARDLINE_OIDC_CLIENT_ID.',
  azp: 'The ID token was made for another client: compare WARDLINE_OIDC_CLIENT_ID.',
  iss: 'The ID token is of another issuer: compare WARDLINE_OIDC_ISSUER.',
  auth_time:
    'The provider did not authenticate you again, as it was asked to: sign out there, then confirm again, or make the change with the local admin key.',
}

const noAuthTime = () =>
  invalid(
    'The provider does not say when you signed in (auth_time), so it cannot confirm that it is you: let it send auth_time, or make the change with the local admin key.',
  )

/** Asks for the time of the sign-in by name: not every provider sends it for `max_age` (OpenID Connect Core 1.0, section 5.5). */
const askForTime = JSON.stringify({ id_token: { auth_time: { essential: true } } })

/** The ID token was made just now, so its time is that of the provider's clock. */
function clocksDiffer({ iat }: Claims, nowSeconds: number): AppError {
  const seconds = typeof iat === 'number' ? Math.abs(Math.round(iat - nowSeconds)) : undefined
  const much = seconds === undefined ? '' : ` by ${seconds} seconds`
  return invalid(
    `The clocks of this machine and of the provider differ${much}, and ${toleranceSeconds} seconds are tolerated: set both by NTP, here by \`timedatectl set-ntp true\`.`,
  )
}

/** Statuses that say nothing about the person: a timeout, too many requests, a fault of the provider. */
const saysNothing = (status: unknown): boolean => status === 408 || status === 429 || Number(status) >= 500

/**
 * Turns a failure of openid-client into an AppError: `unavailable` if a retry may help or the configuration is wrong,
 * `unauthorized` if the provider refuses or its answer is not valid. Causes are left out, because they have claims.
 */
function faultOf(failure: unknown): AppError {
  if (failure instanceof AppError) return failure
  const { code, error, error_description: description, status, cause } = failure as Failure
  const details = [shown(error), shown(description)].filter((part) => part !== '').join(': ')
  if (code === 'OAUTH_WWW_AUTHENTICATE_CHALLENGE') {
    return away('The provider refuses this service: check WARDLINE_OIDC_CLIENT_ID and its secret.')
  }
  if (typeof error === 'string') {
    if (error === 'invalid_client' || error === 'unauthorized_client') {
      return away(`The provider refuses this service (${details}): check WARDLINE_OIDC_CLIENT_ID and its secret.`)
    }
    if (error === 'temporarily_unavailable' || error === 'server_error' || saysNothing(status)) {
      return away(`The provider cannot answer at the moment (${details}).`)
    }
    return new Refusal(error, `The provider refused (${details}).`)
  }
  const { claim, attribute, claims, now } = cause?.cause ?? cause ?? {}
  if (code === 'OAUTH_JWT_TIMESTAMP_CHECK_FAILED' && claim !== 'auth_time')
    return clocksDiffer(claims ?? {}, Number(now))
  if (typeof claim === 'string' && Object.hasOwn(claimSentences, claim)) return invalid(claimSentences[claim]!)
  if (code === 'OAUTH_JSON_ATTRIBUTE_COMPARISON_FAILED') {
    if (attribute === 'sub') return anotherPerson()
    if (attribute === 'issuer') return away('It names another issuer: compare WARDLINE_OIDC_ISSUER.')
  }
  if (code === 'OAUTH_KEY_SELECTION_FAILED') {
    return invalid('The ID token is signed with a key that the provider does not publish: sign in again in a minute.')
  }
  const isUnreached =
    code === undefined ||
    code === 'OAUTH_TIMEOUT' ||
    code === 'OAUTH_RESPONSE_IS_NOT_CONFORM' ||
    code === 'OAUTH_RESPONSE_IS_NOT_JSON' ||
    code === 'OAUTH_PARSE_ERROR'
  if (isUnreached) return away('The provider does not answer.')
  return invalid(`The answer of the provider is not valid (${shown(code)}).`)
}

type Tokens = TokenEndpointResponse & TokenEndpointResponseHelpers

/** What is known of the provider. */
interface Opened {
  client: typeof OpenidClient
  configuration: Configuration
  /** Its keys; undefined if it announces none. */
  keys: Parameters<typeof import('jose').jwtVerify>[1] | undefined
}

/** The OpenID Connect provider at which people sign in (OpenID Connect Core 1.0). */
export class Provider {
  readonly settings: ProviderSettings
  readonly #clock: Pick<Deps['clock'], 'now' | 'monotonic'>
  #known: { opened: Promise<Opened>; at: number } | undefined

  constructor(settings: ProviderSettings, clock: Pick<Deps['clock'], 'now' | 'monotonic'>) {
    this.settings = settings
    this.#clock = clock
  }

  /** Reads the discovery document, which is remembered. Rejects with AppError. */
  async metadata(): Promise<Readonly<ServerMetadata>> {
    return (await this.#open()).configuration.serverMetadata()
  }

  /** Returns the address to open. Rejects with AppError. `maxAge`: seconds since the person proved who they are. */
  async start({ state, nonce, verifier }: Attempt, maxAge?: number): Promise<string> {
    const { client, configuration } = await this.#open()
    const {
      scopes_supported: supported,
      pushed_authorization_request_endpoint: pushed,
      claims_parameter_supported: takesClaims,
    } = configuration.serverMetadata()
    // A provider that does not list it refuses the request, as Google does.
    const scopes = this.settings.scopes
      .split(' ')
      .filter((scope) => scope !== 'offline_access' || supported === undefined || supported.includes(scope))
    const parameters = {
      redirect_uri: this.settings.redirect,
      scope: scopes.join(' '),
      state,
      nonce,
      code_challenge: await client.calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
      ...(maxAge === undefined ? {} : { max_age: String(maxAge) }),
      // A provider that does not know it passes it over; one that announces that it takes none may refuse it.
      ...(maxAge === undefined || takesClaims === false ? {} : { claims: askForTime }),
    }
    try {
      const url =
        pushed === undefined
          ? client.buildAuthorizationUrl(configuration, parameters)
          : await client.buildAuthorizationUrlWithPAR(configuration, parameters)
      return url.href
    } catch (failure) {
      throw faultOf(failure)
    }
  }

  /** Exchanges the query with which the provider returned the browser. Rejects with AppError. */
  async finish(query: string, { state, nonce, verifier }: Attempt, maxAge?: number): Promise<Answer> {
    const { client, configuration } = await this.#open()
    const address = new URL(`${this.settings.redirect}?${query}`)
    const checks = {
      expectedState: state,
      expectedNonce: nonce,
      pkceCodeVerifier: verifier,
      idTokenExpected: true,
      ...(maxAge === undefined ? {} : { maxAge }),
    }
    try {
      return await this.#read(await client.authorizationCodeGrant(configuration, address, checks))
    } catch (failure) {
      const { code, cause } = failure as Failure
      const claims = code === 'OAUTH_INVALID_RESPONSE' ? cause?.cause?.claims : undefined
      throw maxAge !== undefined && claims && claims.auth_time === undefined ? noAuthTime() : faultOf(failure)
    }
  }

  /** Asks again who the person is. Rejects with AppError: `unauthorized` only if the provider refuses this person. */
  async refresh(refreshToken: string, subject: string): Promise<Answer> {
    const { client, configuration } = await this.#open()
    try {
      return await this.#read(await client.refreshTokenGrant(configuration, refreshToken), subject)
    } catch (failure) {
      const fault = faultOf(failure)
      throw fault instanceof Refusal && ofPerson.includes(fault.reason) ? fault : away(fault.message)
    }
  }

  /** Returns the address that ends the session at the provider; undefined if it has none or does not answer. */
  async logoutUrl(idToken: string): Promise<string | undefined> {
    const { client, configuration } = await this.#open().catch(() => ({ client: undefined, configuration: undefined }))
    if (!client || configuration.serverMetadata().end_session_endpoint === undefined) return undefined
    const parameters = { id_token_hint: idToken, post_logout_redirect_uri: this.settings.home }
    return client.buildEndSessionUrl(configuration, parameters).href
  }

  /** Verifies a logout token (OpenID Connect Back-Channel Logout 1.0, section 2.6). Rejects with AppError. */
  async verifyLogout(token: string): Promise<LogoutToken> {
    const { jwtVerify, errors } = await import('jose')
    const { keys } = await this.#open()
    if (!keys) throw away('The provider announces no keys.')
    const refuse = (why: string): never => {
      throw new AppError('invalid', `The logout token is not valid: ${why}.`)
    }
    const { payload } = await jwtVerify(token, keys, {
      issuer: this.settings.issuer,
      audience: this.settings.clientId,
      maxTokenAge: logoutTokenAge,
      clockTolerance: toleranceSeconds,
      currentDate: new Date(this.#clock.now()),
    }).catch((failure) => {
      const isAway = !(failure instanceof errors.JOSEError) || failure instanceof errors.JWKSTimeout
      if (isAway) throw away('The keys of the provider cannot be read.')
      return refuse(failure.code)
    })
    const { events, nonce, sid, sub, iat } = payload
    if (typeof events !== 'object' || events === null || !Object.hasOwn(events, logoutEvent))
      refuse('it has no logout event')
    if (nonce !== undefined) refuse('it has a nonce')
    const providerSession = typeof sid === 'string' ? sid : undefined
    if (sub === undefined && providerSession === undefined) refuse('it has neither sub nor sid')
    return { subject: sub, providerSession, issuedAt: iat! * 1_000 }
  }

  #open(): Promise<Opened> {
    const now = this.#clock.monotonic()
    if (this.#known && now - this.#known.at < rereadMs) return this.#known.opened
    const known = { opened: this.#discover(), at: now }
    this.#known = known
    known.opened.catch(() => {
      if (this.#known === known) this.#known = undefined
    })
    return known.opened
  }

  async #discover(): Promise<Opened> {
    // Loaded when they are needed: a service without a provider starts without them.
    const [client, { createRemoteJWKSet }] = await Promise.all([import('openid-client'), import('jose')])
    const { issuer, clientId, clientSecret } = this.settings
    const metadata = { client_secret: clientSecret, [client.clockTolerance]: toleranceSeconds }
    const isInsecure = new URL(issuer).protocol === 'http:'
    try {
      const configuration = await client.discovery(new URL(issuer), clientId, metadata, undefined, {
        timeout: timeoutSeconds,
        execute: [...(isInsecure ? [client.allowInsecureRequests] : []), client.enableNonRepudiationChecks],
      })
      const { jwks_uri: address } = configuration.serverMetadata()
      const options = { timeoutDuration: timeoutSeconds * 1_000, cacheMaxAge: keysMs }
      return {
        client,
        configuration,
        keys: address === undefined ? undefined : createRemoteJWKSet(new URL(address), options),
      }
    } catch (failure) {
      const fault = faultOf(failure)
      throw away(`The provider ${issuer} cannot be read: ${fault.message}`)
    }
  }

  async #read(tokens: Tokens, expected?: string): Promise<Answer> {
    const { client, configuration } = await this.#open()
    const claims = tokens.claims()
    const subject = claims?.sub ?? expected
    if (subject === undefined || (expected !== undefined && subject !== expected)) {
      throw anotherPerson()
    }
    const now = this.#clock.now()
    // A provider that is ahead would let confirmations last longer.
    if (claims && claims.iat * 1_000 > now + toleranceSeconds * 1_000) throw clocksDiffer(claims, now / 1_000)
    const sources: Claims[] = claims ? [claims] : []
    const hasGroups = claims && readGroups(claims, this.settings.groupsClaim).doubt === undefined
    if (!hasGroups && configuration.serverMetadata().userinfo_endpoint !== undefined) {
      sources.push(await client.fetchUserInfo(configuration, tokens.access_token, subject))
    }
    return {
      subject,
      sources,
      authenticatedAt: claims?.auth_time === undefined ? undefined : Math.min(claims.auth_time * 1_000, now),
      providerSession: typeof claims?.sid === 'string' ? claims.sid : undefined,
      refreshToken: tokens.refresh_token,
      idToken: tokens.id_token,
    }
  }
}
