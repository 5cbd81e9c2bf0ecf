import { hiddenHeader, type PersonRole, type Scope, sessionHeader } from '@wardline/contract'
import { matchesPattern } from '@wardline/text'
import type { FastifyRequest } from 'fastify'
import { AppError } from '../errors.ts'
import { clientAddress } from './actor.ts'

/** The caller. */
export interface Principal {
  keyId: string
  /** Display name of the key. */
  name: string
  scope: Scope
  /** Instance ids, or prefixes ending in *, to which the key is bound; null = every instance. */
  instances: readonly string[] | null
  /** Session through which the request came: of a browser, or of a command line. */
  session?: string
  /** The session is that of a command line. */
  isCommandLine?: true
  /** The person who signed in at the provider; absent for keys. */
  person?: { id: string; name: string; issuer: string; role: PersonRole }
  /** A passkey of the local admin opened the session; `keyId` and `name` are its own. */
  passkey?: true
  /** The session of the local admin, who has a passkey to confirm it with. */
  confirmsByPasskey?: true
  /**
   * When the provider last authenticated the person, or the local admin last showed key or passkey, in epoch milliseconds.
   */
  authenticatedAt?: number
  /**
   * Defaults for instances registered with this key: their owner, the maximum number of them (null = only the service's
   * limit), and their tags (sorted JSON array; null = none).
   */
  registers: { owner: string; max: number | null; tags: string | null }
  /** Tags, set by operators or keys, of the agents whose approvals the key decides; absent = all agents. */
  approves?: readonly string[]
  /** Tags, set by operators or keys, of the agents that the caller sees and reaches; absent = all agents. */
  team?: readonly string[]
  /** Patterns of the models that the key may call through the gateway; absent = all. */
  models?: readonly string[]
  /** The key of a supervisor. Its evidence counts; the agent does not have it. */
  supervises?: boolean
}

/** Whether the caller may be an agent. People use other scopes or sessions, but agents may also have the admin key. */
export const mayBeAgent = ({ scope, session }: Pick<Principal, 'scope' | 'session'>): boolean =>
  (scope === 'agent' || scope === 'admin') && session === undefined

/** Key or session that opened a stream; the stream ends with it, and has only what its team may see. */
export type Holder = Pick<Principal, 'keyId' | 'session' | 'team'>

/** Authenticates keys and sessions. Undefined = refused. */
export interface Authenticator {
  byKey(presented: string): Principal | undefined
  /** Like `byKey`, for a key that this process may not know yet. `mayAsk`: whether the database may be queried. */
  byStoredKey(presented: string, mayAsk: boolean): Promise<Principal | undefined>
  /** `wrong secret`: the session is live, but the request has another secret. */
  bySession(proof: SessionProof): Promise<Principal | 'wrong secret' | undefined>
  /** Undefined: not a token that was granted; `over`: it has expired, or its session has ended. */
  byAccess(presented: string): Promise<Principal | 'over' | undefined>
  /** State of a session in memory; undefined if it is not cached. */
  knownSession(token: string): 'live' | 'over' | undefined
}

/** A request refused because of its caller. */
export interface Refusal {
  address: string | null
  /** Undefined if the request had no valid key or session. */
  principal: Principal | undefined
  /** Instance for which a key bound to other instances was used. */
  reachedFor: string | undefined
}

/** Tracks refused requests and limits guessing. */
export interface RefusalWatch {
  /** Counts an invalid key or session. Returns the seconds that the address must wait if it sent too many. */
  badKey(address: string | null): number | undefined
  /** Whether the address has already sent so many invalid keys that the next one makes it wait. */
  isWaiting(address: string | null): boolean
  refused(refusal: Refusal): void
}

/** The key was used for an instance to which it is not bound. */
export class IdentityMismatch extends AppError {
  readonly instanceId: string

  constructor(instanceId: string) {
    super('forbidden', 'This key is bound to other instances.')
    this.instanceId = instanceId
  }
}

/** Whether the principal may act for the instance. */
export function mayActFor({ instances }: Principal, instanceId: string): boolean {
  if (instances === null) return true
  return instances.some((bound) => matchesPattern(bound, instanceId))
}

/** Throws AppError `forbidden` if the principal is bound to other instances. */
export function assertMayActFor(principal: Principal, instanceId: string | undefined): void {
  if (principal.instances === null) return
  if (instanceId === undefined) {
    throw new AppError('forbidden', 'This key is bound to instances: instance_id must name one of them.')
  }
  if (!mayActFor(principal, instanceId)) {
    throw new IdentityMismatch(instanceId)
  }
}

const sessionCookies = { plain: 'wardline', secure: '__Host-wardline' } as const

/**
 * What a request of a browser session must have. Browsers send the cookie to every port of the host, so other programs
 * on the machine may receive it; the secret is kept in the storage of this origin and sent by its scripts alone.
 */
export interface SessionProof {
  token: string
  secret: string
  /** Whether the page that sends it is hidden: what it reads by itself is no use of the session. */
  isHidden?: boolean
}

const tokenForm = /^[\w-]{43}$/

/** Returns the name of the session cookie. The prefix `__Host-` requires HTTPS. */
export const sessionCookie = ({ protocol }: FastifyRequest): string =>
  protocol === 'https' ? sessionCookies.secure : sessionCookies.plain

/**
 * Returns the session token of the request's cookie if it is well-formed. Over HTTPS the plain cookie name is ignored:
 * any host of the same domain can set it and could thereby replace the user's session with its own.
 */
export function sessionToken(request: FastifyRequest): string | undefined {
  const own = sessionCookie(request)
  for (const part of request.headers.cookie?.split(';') ?? []) {
    const [name, value] = part.trim().split('=')
    if (value && name === own && tokenForm.test(value)) return value
  }
  return undefined
}

/** Returns cookie and secret of a browser session if both are well-formed. */
export function sessionProof(request: FastifyRequest): SessionProof | undefined {
  const token = sessionToken(request)
  const secret = request.headers[sessionHeader]
  const isHidden = request.headers[hiddenHeader] !== undefined
  return token !== undefined && typeof secret === 'string' && tokenForm.test(secret)
    ? { token, secret, isHidden }
    : undefined
}

/** Browsers also send the cookie with requests from other sites (CSRF), so only the service's own page may write. */
function isForeignWrite(request: FastifyRequest): boolean {
  if (request.method === 'GET') return false
  const site = request.headers['sec-fetch-site']
  if (site !== undefined) return site !== 'same-origin'
  const { origin, host } = request.headers
  return origin === undefined || !URL.canParse(origin) || new URL(origin).host !== host
}

/** Whether a page of another site sent the request. Such a page could log the user in to another session. */
export function isForeignPage(request: FastifyRequest): boolean {
  const { origin, 'sec-fetch-site': site } = request.headers
  return (origin !== undefined || site !== undefined) && isForeignWrite(request)
}

async function sessionPrincipal(
  request: FastifyRequest,
  authenticator: Authenticator,
  watch: RefusalWatch,
): Promise<Principal | undefined> {
  const proof = sessionProof(request)
  if (!proof) {
    if (sessionToken(request) === undefined) return undefined
    throw new AppError(
      'unauthorized',
      `The session cookie is accepted only with the session's secret in the header ${sessionHeader}: sign in again.`,
    )
  }
  const known = authenticator.knownSession(proof.token)
  // An ended session never counts as an invalid key: it is not a guess and costs no query.
  if (known === 'over') return undefined
  // Guesses must not cost a query each. Known sessions are not delayed by guesses from the same address.
  if (known === undefined && watch.isWaiting(clientAddress(request))) return refuseSession(request, watch)
  const principal = await authenticator.bySession(proof)
  if (principal === 'wrong secret' || (!principal && known === undefined)) return refuseSession(request, watch)
  if (principal && isForeignWrite(request)) {
    throw new AppError('forbidden', 'A browser session may write only from the page of this service.')
  }
  return principal
}

function assertScope(principal: Principal, scopes: readonly Scope[]): void {
  if (!scopes.includes(principal.scope)) {
    throw new AppError('forbidden', `The scope ${principal.scope} does not allow this.`)
  }
}

/** Only invalid keys count and wait: a caller with a valid key is not delayed by guesses from the same address. */
function refuseKey(request: FastifyRequest, watch: RefusalWatch): never {
  const waitSeconds = watch.badKey(clientAddress(request))
  const notValid = `The key in ${request.hasKeyAsBearer ? 'Authorization' : 'X-Monitor-Key'} is not valid`
  if (waitSeconds === undefined) throw new AppError('unauthorized', `${notValid}.`)
  throw new AppError('too_many_failures', `${notValid}, and too many such keys came from this address.`, waitSeconds)
}

function refuseSession(request: FastifyRequest, watch: RefusalWatch): undefined {
  const waitSeconds = watch.badKey(clientAddress(request))
  if (waitSeconds === undefined) return undefined
  throw new AppError(
    'too_many_failures',
    'The session is not valid, and too many invalid keys or sessions came from this address.',
    waitSeconds,
  )
}

/** Begins the access tokens of command lines, which no key begins with. */
export const accessPrefix = 'wl_login_'

/** Only invalid tokens count, like invalid keys. */
async function accessPrincipal(
  presented: string,
  request: FastifyRequest,
  authenticator: Authenticator,
  watch: RefusalWatch,
): Promise<Principal> {
  const principal = await authenticator.byAccess(presented)
  if (principal === undefined) return refuseKey(request, watch)
  if (principal !== 'over') return principal
  throw new AppError('unauthorized', 'The login of this command line has expired or was ended.')
}

/** Authenticates the caller and checks its scope. Throws or rejects with AppError. */
export function authenticate(
  request: FastifyRequest,
  scopes: readonly Scope[],
  authenticator: Authenticator,
  watch: RefusalWatch,
): Principal | Promise<Principal> {
  const presented = request.headers['x-monitor-key']
  if (typeof presented === 'string') {
    const admitted = (principal: Principal): Principal => {
      request.principal = principal
      assertScope(principal, scopes)
      return principal
    }
    if (presented.startsWith(accessPrefix)) {
      return accessPrincipal(presented, request, authenticator, watch).then(admitted)
    }
    const known = authenticator.byKey(presented)
    if (known) return admitted(known)
    // Guesses must not cost more than a few queries per minute.
    const mayAsk = !watch.isWaiting(clientAddress(request))
    return authenticator
      .byStoredKey(presented, mayAsk)
      .then((principal) => (principal ? admitted(principal) : refuseKey(request, watch)))
  }
  return sessionPrincipal(request, authenticator, watch).then((principal) => {
    if (!principal) {
      const bearer = request.routeOptions.config.isOtlp ? ', or as bearer in Authorization' : ''
      throw new AppError('unauthorized', `A key is required in the header X-Monitor-Key${bearer}.`)
    }
    request.principal = principal
    assertScope(principal, scopes)
    return principal
  })
}
