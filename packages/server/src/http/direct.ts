import type { IncomingHttpHeaders, IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { type Endpoint, limits, type Scope, suspendedHeader } from '@wardline/contract'
import type { FastifyInstance } from 'fastify'
import { AppError } from '../errors.ts'
import { faultFinder } from '../validation.ts'
import { plainAddress } from './actor.ts'
import type { Authenticator, Principal } from './auth.ts'
import { admitConnection, isBeyondCap } from './connections.ts'
import { bodyText, parseJson } from './json.ts'
import { noStore } from './problem.ts'
import { isSocketClaimed } from './sse.ts'

/** Input of a handler that runs on both the direct and the framework path. */
export interface Call<Body> {
  body: Body
  principal: Principal
  /** Client address; null if the connection was reset while the request was read. */
  address: string | null
  headers: IncomingHttpHeaders
  reply: HeaderTarget
}

/** The answer, whose headers a handler may set. A refusal on the direct path leaves them out. */
export interface HeaderTarget {
  header(name: string, value: string): unknown
}

type Respond = (call: Call<never>) => Promise<unknown>

/** A read about one agent. */
export interface Read {
  instanceId: string
  principal: Principal
  headers: IncomingHttpHeaders
}

/** What a read found: the body, or that the caller has it already (304). */
export interface Found<Body> {
  headers: Readonly<Record<string, string>>
  body: Body | undefined
}

/** Returns undefined to leave the request to the framework path, such as when it must be refused or something be read. */
export type Reader<Body> = (read: Read) => Found<Body> | undefined

interface DirectRoute {
  method: string
  scopes: readonly Scope[]
  status: number
  /** Describes why the body is invalid, as a sentence; undefined if it is valid. */
  faultOf(body: unknown): string | undefined
  respond: Respond
  answered(): void
}

/** A route whose path has the id of an agent between these parts. */
interface ReadRoute {
  before: string
  after: string
  scopes: readonly Scope[]
  find: Reader<unknown>
  answered: Readonly<Record<200 | 304, () => void>>
}

const everyHeader = ['x-content-type-options', 'nosniff', 'cache-control', noStore]
const usualHeaders = ['content-type', 'application/json; charset=utf-8', ...everyHeader]

/** Requests that failed here, with the instance that the body names; the framework path sends the response. */
const failed = new WeakMap<IncomingMessage, { fault: unknown; named: unknown }>()

export const earlierFailure = (request: IncomingMessage): { fault: unknown; named: unknown } | undefined =>
  failed.get(request)

/** Returns what a body names as its instance, which may be any value. */
export const instanceOf = (body: unknown): unknown =>
  (body as { instance_id?: unknown } | null | undefined)?.instance_id

const plainId = /^[a-z0-9_-]+$/

const jsonTypes: ReadonlySet<unknown> = new Set(['application/json', 'application/json; charset=utf-8'])

interface DirectTools {
  authenticator: Pick<Authenticator, 'byKey'>
  /** Throws unless the request's host is served. */
  assertHost(request: IncomingMessage): void
  /** Whether X-Forwarded-For may be trusted. */
  hasProxies: boolean
  suspendedVersion: SuspendedVersion
}

/**
 * Returns the control version to send in the header Wardline-Suspended; undefined for a caller that is not a suspended
 * agent. `named`: what the request names as its instance, if anything.
 */
export type SuspendedVersion = (principal: Principal, named: readonly unknown[]) => number | undefined

/**
 * Serves the most frequent requests without the framework, which takes an eighth of the time of each. Unusual requests
 * and error responses are left to the framework path (`general`).
 */
class DirectRoutes {
  readonly #routes = new Map<string, DirectRoute>()
  readonly #reads: ReadRoute[] = []
  readonly #tools: DirectTools
  #isClosing = false

  constructor(tools: DirectTools) {
    this.#tools = tools
  }

  /** Adds a route. `answered` is called for each successful response. */
  add({ path, method, access, status, body }: Endpoint, respond: Respond, answered: () => void): void {
    const scopes = access as readonly Scope[]
    this.#routes.set(path, { method, scopes, status, faultOf: faultFinder(body!), respond, answered })
  }

  /** Adds a read. `answered` is called for each response, by its status. */
  addRead({ path, access }: Endpoint, find: Reader<unknown>, answered: ReadRoute['answered']): void {
    const [before = '', after = ''] = path.split(':instanceId')
    this.#reads.push({ before, after, scopes: access as readonly Scope[], find, answered })
  }

  /** Leaves all further requests to the framework path, which responds that the service is shutting down. */
  close(): void {
    this.#isClosing = true
  }

  /** Returns a listener that serves the direct routes and passes other requests to `general`. */
  before(general: RequestListener): RequestListener {
    return (request, response) => {
      // The framework answers 503 and closes the connection: another process, or the next one, has the answer at once.
      if (this.#isClosing) response.setHeader('retry-after', '1')
      if (request.method === 'GET') {
        if (!this.#read(request, response)) general(request, response)
        return
      }
      const route = this.#routes.get(request.url!)
      const principal = route && this.#principalOf(route, request)
      if (principal) this.#serve(route, principal, request, response, general)
      else general(request, response)
    }
  }

  /** Returns the caller if the request can be served directly. */
  #principalOf(route: DirectRoute, request: IncomingMessage): Principal | undefined {
    const { headers } = request
    const length = Number(headers['content-length'])
    if (
      request.method !== route.method ||
      !(length > 0 && length <= limits.bodyBytes) ||
      !jsonTypes.has(headers['content-type']) ||
      (this.#tools.hasProxies && headers['x-forwarded-for'] !== undefined)
    ) {
      return undefined
    }
    return this.#caller(route.scopes, request)
  }

  /** Returns the owner of the key if the request needs no other check than these. */
  #caller(scopes: readonly Scope[], request: IncomingMessage): Principal | undefined {
    const { headers, socket } = request
    const key = headers['x-monitor-key']
    if (this.#isClosing || typeof key !== 'string' || isSocketClaimed(socket) || isBeyondCap(socket)) return undefined
    try {
      this.#tools.assertHost(request)
    } catch {
      return undefined
    }
    const principal = this.#tools.authenticator.byKey(key)
    // Whether an agent is of a team is read from the database.
    return principal && !principal.team && scopes.includes(principal.scope) ? principal : undefined
  }

  /** Returns whether it responded. */
  #read(request: IncomingMessage, response: ServerResponse): boolean {
    const { headers, socket } = request
    const url = request.url!
    const route = this.#reads.find(({ before, after }) => url.startsWith(before) && url.endsWith(after))
    const hasBody = headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined
    if (!route || hasBody) return false
    const instanceId = url.slice(route.before.length, url.length - route.after.length)
    if (instanceId.length > limits.instanceId || !plainId.test(instanceId)) return false
    const principal = this.#caller(route.scopes, request)
    const found = principal && route.find({ instanceId, principal, headers })
    if (!found) return false
    admitConnection(socket)
    const text = found.body === undefined ? undefined : JSON.stringify(found.body)
    const status = text === undefined ? 304 : 200
    const answer =
      text === undefined ? [...everyHeader] : [...usualHeaders, 'content-length', `${Buffer.byteLength(text)}`]
    for (const name in found.headers) answer.push(name, found.headers[name]!)
    const version = this.#tools.suspendedVersion(principal, [instanceId])
    if (version !== undefined) answer.push(suspendedHeader, String(version))
    route.answered[status]()
    response.writeHead(status, answer)
    response.end(text)
    return true
  }

  #serve(
    route: DirectRoute,
    principal: Principal,
    request: IncomingMessage,
    response: ServerResponse,
    general: RequestListener,
  ): void {
    admitConnection(request.socket)
    let named: unknown
    const answer = [...usualHeaders]
    const refuse = (fault: unknown) => {
      failed.set(request, { fault, named })
      general(request, response)
    }
    const finish = (body: unknown) => {
      const text = JSON.stringify(body)
      route.answered()
      answer.push('content-length', String(Buffer.byteLength(text)))
      const version = this.#tools.suspendedVersion(principal, [named])
      if (version !== undefined) answer.push(suspendedHeader, String(version))
      response.writeHead(route.status, answer)
      response.end(text)
    }
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      try {
        const body = parseJson(bodyText(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)))
        // Frees the bytes, which would otherwise be kept until the response.
        chunks.length = 0
        named = instanceOf(body)
        const fault = route.faultOf(body)
        if (fault !== undefined) throw new AppError('invalid', fault)
        const { headers, socket } = request
        const address = plainAddress(socket.remoteAddress)
        const reply = { header: (name: string, value: string) => answer.push(name, value) }
        route.respond({ body: body as never, principal, address, headers, reply }).then(finish, refuse)
      } catch (fault) {
        refuse(fault)
      }
    })
  }
}

export type { DirectRoutes }

/** Installs direct routes ahead of the framework's routes. */
export function openDirectRoutes(app: FastifyInstance, tools: DirectTools): DirectRoutes {
  const routes = new DirectRoutes(tools)
  const [general] = app.server.listeners('request') as RequestListener[]
  app.server.removeAllListeners('request').on('request', routes.before(general!))
  app.addHook('preClose', (done) => {
    routes.close()
    done()
  })
  return routes
}
