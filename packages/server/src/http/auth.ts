import type { Scope } from '@wardline/contract'
import { matchesPattern } from '@wardline/text'
import type { FastifyRequest } from 'fastify'
import { AppError } from '../errors.ts'
import { clientAddress } from './actor.ts'

/** The caller. */
export interface Principal {
  keyId: string
  /** The key's name, for people. */
  name: string
  scope: Scope
  /** Instance ids, or prefixes ending in *, that the key is bound to; null = every instance. */
  instances: readonly string[] | null
  /** The browser session that it came by. */
  session?: string
  /**
   * To whom instances that it registers belong, the maximum of them (null = none but that of the service), and the tags
   * that they get (sorted JSON array; null = none).
   */
  registers: { owner: string; max: number | null; tags: string | null }
}

/** Whether an agent may be behind it: people read with other scopes, and by sessions. Agents may hold the admin key. */
export const mayBeAgent = ({ scope, session }: Pick<Principal, 'scope' | 'session'>): boolean =>
  (scope === 'agent' || scope === 'admin') && session === undefined

/** For whom a stream is open: it ends with the key, or the session, that opened it. */
export type Holder = Pick<Principal, 'keyId' | 'session'>

/** Knows the keys and sessions. Undefined = refused. */
export interface Authenticator {
  byKey(presented: string): Principal | undefined
  /** The same for a key that this process may not have heard of yet; `mayAsk`: the database may be asked. */
  byStoredKey(presented: string, mayAsk: boolean): Promise<Principal | undefined>
  bySession(token: string): Promise<Principal | undefined>
  /** A session as kept in memory. */
  knownSession(token: string): 'live' | 'over' | undefined
}

/** A request that was refused because of who sent it. */
export interface Refusal {
  address: string | null
  /** Undefined when no valid key or session came with it. */
  principal: Principal | undefined
  /** The instance that a key bound to others was used for. */
  reachedFor: string | undefined
}

/** Watches who is refused. */
export interface RefusalWatch {
  /** Notes an invalid key or session. Gives the seconds that the address has to wait when it came with too many of them. */
  badKey(address: string | null): number | undefined
  /** Whether the next invalid key of the address makes it wait. */
  isWaiting(address: string | null): boolean
  refused(refusal: Refusal): void
}

/** The key is bound to other instances than the one that it was used for. */
export class IdentityMismatch extends AppError {
  readonly instanceId: string

  constructor(instanceId: string) {
    super('forbidden', 'This key is bound to other instances.')
    this.instanceId = instanceId
  }
}

/** Whether the principal may speak for the instance. */
export function mayActFor({ instances }: Principal, instanceId: string): boolean {
  if (instances === null) return true
  return instances.some((bound) => matchesPattern(bound, instanceId))
}

/** Throws AppError `forbidden` when the principal is bound to other instances. */
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

const tokenForm = /^[\w-]{43}$/

/** The cookie of a session, by how the browser reaches the service: `__Host-` needs HTTPS. */
export const sessionCookie = ({ protocol }: FastifyRequest): string =>
  protocol === 'https' ? sessionCookies.secure : sessionCookies.plain

/**
 * The session token of the request's cookie, if it has one of the form that the service makes. Over HTTPS a cookie with
 * the plain name may be from any host of the same domain, which could thereby put its own session in place of the user's.
 */
export function sessionToken(request: FastifyRequest): string | undefined {
  const own = sessionCookie(request)
  for (const part of request.headers.cookie?.split(';') ?? []) {
    const [name, value] = part.trim().split('=')
    if (value && name === own && tokenForm.test(value)) return value
  }
  return undefined
}

/** A browser sends the cookie with requests that a foreign page started: only our own page may write. */
function isForeignWrite(request: FastifyRequest): boolean {
  if (request.method === 'GET') return false
  const site = request.headers['sec-fetch-site']
  if (site !== undefined) return site !== 'same-origin'
  const { origin, host } = request.headers
  return origin === undefined || !URL.canParse(origin) || new URL(origin).host !== host
}

/** Whether a page of another site sends the request: it could log the user in to another session. */
export function isForeignPage(request: FastifyRequest): boolean {
  const { origin, 'sec-fetch-site': site } = request.headers
  return (origin !== undefined || site !== undefined) && isForeignWrite(request)
}

async function sessionPrincipal(
  request: FastifyRequest,
  authenticator: Authenticator,
  watch: RefusalWatch,
): Promise<Principal | undefined> {
  const token = sessionToken(request)
  if (token === undefined) return undefined
  const known = authenticator.knownSession(token)
  // A browser whose session is over may say so again and again: it guesses nothing, and costs nothing.
  if (known === 'over') return undefined
  // Guesses must not cost a query each. A session that was seen before does not wait for others.
  if (known === undefined && watch.isWaiting(clientAddress(request))) return refuseSession(request, watch)
  const principal = await authenticator.bySession(token)
  if (!principal && known === undefined) return refuseSession(request, watch)
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

/** A caller with the right key is not delayed by wrong ones from the same address. */
function refuseKey(request: FastifyRequest, watch: RefusalWatch): never {
  const waitSeconds = watch.badKey(clientAddress(request))
  if (waitSeconds === undefined) throw new AppError('unauthorized', 'The key in X-Monitor-Key is not valid.')
  throw new AppError(
    'too_many_failures',
    'The key in X-Monitor-Key is not valid, and too many such keys came from this address.',
    waitSeconds,
  )
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

/** Finds out who calls, and whether the endpoint is open to them. Throws AppError. */
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
    const known = authenticator.byKey(presented)
    if (known) return admitted(known)
    // Guesses must not cost more than a few queries a minute.
    const mayAsk = !watch.isWaiting(clientAddress(request))
    return authenticator
      .byStoredKey(presented, mayAsk)
      .then((principal) => (principal ? admitted(principal) : refuseKey(request, watch)))
  }
  return sessionPrincipal(request, authenticator, watch).then((principal) => {
    if (!principal) throw new AppError('unauthorized', 'A key is required in the header X-Monitor-Key.')
    request.principal = principal
    assertScope(principal, scopes)
    return principal
  })
}
