import type { Scope } from '@wardline/contract'
import type { FastifyRequest } from 'fastify'
import { AppError } from '../errors.ts'

/** Who calls. */
export interface Principal {
  keyId: string
  scope: Scope
  /** Instance ids, or prefixes ending in *, that the key is bound to; null = every instance. */
  instances: readonly string[] | null
}

/** Knows the keys and sessions. Undefined = refused. */
export interface Authenticator {
  byKey(presented: string): Principal | undefined
  bySession(token: string): Promise<Principal | undefined>
}

/** Whether the principal may speak for the instance. */
export function mayActFor({ instances }: Principal, instanceId: string): boolean {
  if (instances === null) return true
  return instances.some((bound) =>
    bound.endsWith('*') ? instanceId.startsWith(bound.slice(0, -1)) : bound === instanceId,
  )
}

/** Throws AppError `forbidden` when the principal is bound to other instances. */
export function assertMayActFor(principal: Principal, instanceId: string | undefined): void {
  if (principal.instances === null) return
  if (instanceId === undefined) {
    throw new AppError('forbidden', 'This key is bound to instances: instance_id must name one of them.')
  }
  if (!mayActFor(principal, instanceId)) {
    throw new AppError('forbidden', 'This key is bound to other instances.')
  }
}

export const sessionCookies = { plain: 'wardline', secure: '__Host-wardline' } as const

/** The session token of the request's cookie, if it has one. */
export function sessionToken(request: FastifyRequest): string | undefined {
  for (const part of request.headers.cookie?.split(';') ?? []) {
    const [name, value] = part.trim().split('=')
    if (value && (name === sessionCookies.plain || name === sessionCookies.secure)) return value
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

async function sessionPrincipal(request: FastifyRequest, authenticator: Authenticator): Promise<Principal | undefined> {
  const token = sessionToken(request)
  const principal = token ? await authenticator.bySession(token) : undefined
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

/** Finds out who calls, and whether the endpoint is open to them. Throws AppError `unauthorized` or `forbidden`. */
export function authenticate(
  request: FastifyRequest,
  scopes: readonly Scope[],
  authenticator: Authenticator,
): Principal | Promise<Principal> {
  const presented = request.headers['x-monitor-key']
  if (typeof presented === 'string') {
    const principal = authenticator.byKey(presented)
    if (!principal) throw new AppError('unauthorized', 'The key in X-Monitor-Key is not valid.')
    assertScope(principal, scopes)
    return principal
  }
  return sessionPrincipal(request, authenticator).then((principal) => {
    if (!principal) throw new AppError('unauthorized', 'A key is required in the header X-Monitor-Key.')
    assertScope(principal, scopes)
    return principal
  })
}
