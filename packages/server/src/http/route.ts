import {
  type BodyOf,
  type Endpoint,
  type EndpointName,
  type ErrorCode,
  endpoints,
  limits,
  type ParamsOf,
  type QueryOf,
  type ReplyOf,
  type Scope,
  access as scopesOf,
  suspendedHeader,
} from '@wardline/contract'
import type {
  FastifyInstance,
  FastifyReply,
  FastifyRequest,
  onRequestHookHandler,
  onSendHookHandler,
  preHandlerHookHandler,
} from 'fastify'
import { AppError, unknownInstance } from '../errors.ts'
import type { Metrics } from '../metrics.ts'
import { clientAddress } from './actor.ts'
import {
  type Authenticator,
  authenticate,
  IdentityMismatch,
  type Principal,
  type RefusalWatch,
  sessionToken,
} from './auth.ts'
import { admitConnection } from './connections.ts'
import {
  type Call,
  type DirectRoutes,
  earlierFailure,
  instanceOf,
  type Reader,
  type SuspendedVersion,
} from './direct.ts'
import { assertSearchable } from './json.ts'
import { bearerKey, OtlpBodies, otlpStatus } from './otlp.ts'
import { claimSocket, releaseSocket } from './sse.ts'

declare module 'fastify' {
  interface FastifyRequest {
    principal: Principal
    /** Instances that a body names which the handler parses itself. */
    namedInstances?: ReadonlySet<string>
    /** The key came in `Authorization`, not in X-Monitor-Key. */
    hasKeyAsBearer?: true
  }
  interface FastifyContextConfig {
    /** Name in the endpoint table. */
    endpoint?: EndpointName
    /** The handler parses the bytes itself. */
    rawBody?: boolean
    /** The body may be YAML: the name under which the handler gets its text. */
    yaml?: string | undefined
    /** The key may be a bearer. */
    isOtlp?: boolean
  }
}

export interface Input<Name extends EndpointName> {
  params: ParamsOf<Name>
  query: QueryOf<Name>
  body: BodyOf<Name>
  principal: Principal
  request: FastifyRequest
}

export type Handler<Name extends EndpointName> = (
  input: Input<Name>,
  reply: FastifyReply,
) => Promise<ReplyOf<Name>> | ReplyOf<Name>

/** Takes over the raw response. An error thrown before the first byte becomes an error response. */
type StreamHandler<Name extends EndpointName> = (input: Input<Name>, reply: FastifyReply) => Promise<void> | void

export interface Router {
  /**
   * Serves an endpoint that responds with one JSON body. `admit` throws an AppError to refuse a caller before the body
   * is read, because reading a body costs more than a refusal.
   */
  handle<Name extends EndpointName>(name: Name, handler: Handler<Name>, admit?: (principal: Principal) => void): void
  /** Serves an endpoint with so many requests that they bypass the framework; see direct.ts. */
  direct<Name extends EndpointName>(name: Name, handler: (call: Call<BodyOf<Name>>) => Promise<ReplyOf<Name>>): void
  /** Lets an endpoint that `handle` serves answer the usual request without the framework, from memory; see direct.ts. */
  read<Name extends EndpointName>(name: Name, find: Reader<ReplyOf<Name>>): void
  /** Serves an endpoint that responds with Server-Sent Events. */
  stream<Name extends EndpointName>(name: Name, handler: StreamHandler<Name>): void
  /** Reports a refused caller to the refusal watch. Errors thrown by handlers are reported automatically. */
  noteRefusal(request: FastifyRequest, fault: unknown): void
}

interface RouterOptions {
  authenticator: Authenticator
  watch: RefusalWatch
  metrics: Metrics
  directRoutes: DirectRoutes
  suspendedVersion: SuspendedVersion
  /** Whether the agent has at least one of these tags of operators. */
  isOfTeam(team: readonly string[], instanceId: string): Promise<boolean>
  /** Counts a new stream of the key and returns a function that releases it. Throws AppError if too many are open. */
  openStream(keyId: string): () => void
  /** Access to the endpoints whose access depends on the configuration. */
  configured: Record<'stream' | 'metrics', 'open' | readonly Scope[]>
}

/** Caller without a key on an endpoint that requires none. */
export const anonymous: Principal = {
  keyId: 'none',
  name: 'anonymous',
  scope: 'viewer',
  instances: [],
  registers: { owner: 'none', max: 0, tags: null },
}

/** Errors caused by the caller's identity, not by the request. */
const refusals: ReadonlySet<ErrorCode> = new Set(['unauthorized', 'forbidden', 'too_many_failures'])

/** Whether the request has the query parameter that requires a key. */
const needsKeyForQuery = ({ keyedBy }: Endpoint, { query }: FastifyRequest): boolean =>
  keyedBy !== undefined && Object.hasOwn(query as object, keyedBy)

const hasCredentials = (request: FastifyRequest): boolean =>
  request.headers['x-monitor-key'] !== undefined || sessionToken(request) !== undefined

const isHook = <Hook>(hook: Hook | false | undefined): hook is Hook => hook !== false && hook !== undefined

/** Refuses a request that has neither a content type nor a body, of which no parser is called. */
function needsRawBody({ rawBody, isOtlp }: Endpoint): preHandlerHookHandler | false {
  if (!rawBody || isOtlp) return false
  const fault = `The body is required, as ${rawBody.contentTypes.join(' or ')}.`
  return ({ body }, _reply, done) => done(body === undefined ? new AppError('invalid', fault) : undefined)
}

function schemaOf({ params, query, body }: Endpoint) {
  return { ...(params ? { params } : {}), ...(query ? { querystring: query } : {}), ...(body ? { body } : {}) }
}

/** Throws AppError `invalid`. */
function inputOf<Name extends EndpointName>(request: FastifyRequest): Input<Name> {
  const { params, query, body, principal } = request
  assertSearchable(params as object)
  assertSearchable(query as object)
  return { params, query, body, principal, request } as Input<Name>
}

/** Binds handlers to the endpoint table: authenticate, validate, handle, reply. */
export function createRouter(app: FastifyInstance, options: RouterOptions): Router {
  const { authenticator, watch, metrics, directRoutes, suspendedVersion, isOfTeam, openStream, configured } = options
  app.decorateRequest('principal', null as unknown as Principal)
  const otlpBodies = new OtlpBodies()

  function noteRefusal(request: FastifyRequest, fault: unknown): void {
    if (!(fault instanceof AppError) || !refusals.has(fault.code)) return
    const reachedFor = fault instanceof IdentityMismatch ? fault.instanceId : undefined
    watch.refused({ address: clientAddress(request), principal: request.principal ?? undefined, reachedFor })
  }
  app.addHook('onError', (request, _reply, fault, done) => {
    noteRefusal(request, fault)
    done()
  })

  /** Who needs no key and sends one all the same is limited to its team; without a team or with a bad key, to nothing. */
  async function limitToTeam(request: FastifyRequest, scopes: readonly Scope[]): Promise<void> {
    try {
      const principal = await authenticate(request, scopes, authenticator, watch)
      request.principal = principal.team ? principal : anonymous
    } catch (fault) {
      // Any other fault leaves open which team it is.
      if (!(fault instanceof AppError) || !refusals.has(fault.code)) throw fault
      request.principal = anonymous
    }
  }

  function authenticateHook(endpoint: Endpoint): onRequestHookHandler {
    const given = endpoint.access
    const access = given === 'stream' || given === 'metrics' ? configured[given] : given
    const scopes = access === 'open' ? scopesOf.readers : access
    return (request, _reply, done) => {
      if (access === 'open' && !needsKeyForQuery(endpoint, request)) {
        request.principal = anonymous
        if (given !== 'stream' || !hasCredentials(request)) return done()
        limitToTeam(request, scopes).then(() => done(), done)
        return
      }
      try {
        const principal = authenticate(request, scopes, authenticator, watch)
        if (!(principal instanceof Promise)) {
          request.principal = principal
          admitConnection(request.raw.socket)
          return done()
        }
        principal.then((found) => {
          request.principal = found
          admitConnection(request.raw.socket)
          done()
        }, done)
      } catch (fault) {
        done(fault as Error)
      }
    }
  }

  /** Lets every answer to a suspended agent say so. */
  function suspendedHook(endpoint: Endpoint): onSendHookHandler {
    const isForAgents = endpoint.access.includes('agent')
    return (request, reply, payload, done) => {
      const { principal, params, query, body, namedInstances, raw } = request
      // Operators read with admin keys, which may also be an agent's.
      if (principal && (isForAgents || principal.scope === 'agent')) {
        const { instanceId } = (params ?? {}) as { instanceId?: unknown }
        const named = [instanceId, instanceOf(query), instanceOf(body), earlierFailure(raw)?.named]
        const version = suspendedVersion(principal, namedInstances ? [...namedInstances] : named)
        if (version !== undefined) reply.header(suspendedHeader, version)
      }
      done(null, payload)
    }
  }

  /** Refuses callers limited to a team what concerns all agents, or an agent of others, as if it did not exist. */
  function teamHook({ teams }: Endpoint): preHandlerHookHandler | false {
    if (teams === 'refused') {
      return ({ principal: { team } }, _reply, done) =>
        done(
          team &&
            new AppError(
              'forbidden',
              `This concerns all agents, and you are limited to those tagged ${team.join(' or ')}.`,
            ),
        )
    }
    if (teams !== 'agent') return false
    return ({ principal: { team }, params }, _reply, done) => {
      if (!team) return done()
      const { instanceId } = params as { instanceId: string }
      isOfTeam(team, instanceId).then((isOf) => done(isOf ? undefined : unknownInstance(instanceId)), done)
    }
  }

  function mount(
    name: EndpointName,
    respond: (request: FastifyRequest, reply: FastifyReply) => void,
    hooks: { first?: onRequestHookHandler; last?: onRequestHookHandler; onSend?: onSendHookHandler } = {},
  ) {
    const endpoint: Endpoint = endpoints[name]
    app.route({
      method: endpoint.method,
      url: endpoint.path,
      schema: schemaOf(endpoint),
      config: {
        ...{ endpoint: name, rawBody: endpoint.rawBody !== undefined, yaml: endpoint.yaml },
        isOtlp: endpoint.isOtlp === true,
      },
      bodyLimit: endpoint.isOtlp
        ? limits.otlpBytes
        : endpoint.rawBody || endpoint.largeBody
          ? limits.batchBytes
          : limits.bodyBytes,
      onRequest: [endpoint.isOtlp && bearerKey, hooks.first, authenticateHook(endpoint), hooks.last].filter(isHook),
      preParsing: endpoint.isOtlp ? [otlpBodies.read] : [],
      preHandler: [needsRawBody(endpoint), teamHook(endpoint)].filter(isHook),
      onSend: [
        endpoint.isOtlp && otlpBodies.release,
        ...[suspendedHook(endpoint), hooks.onSend, endpoint.isOtlp && otlpStatus],
      ].filter(isHook),
      handler: respond,
    })
  }

  const answeredMetric = (name: EndpointName) =>
    metrics.requests.labels(name, `${Math.floor(endpoints[name].status / 100)}xx`)

  const failEarlier: onRequestHookHandler = (request, _reply, done) =>
    done(earlierFailure(request.raw)?.fault as Error | undefined)

  function handleDirectly<Name extends EndpointName>(
    name: Name,
    handler: (call: Call<BodyOf<Name>>) => Promise<ReplyOf<Name>>,
  ): void {
    const { status }: Endpoint = endpoints[name]
    const answered = answeredMetric(name)
    directRoutes.add(endpoints[name], handler, () => answered.inc())
    const respond = (request: FastifyRequest, reply: FastifyReply) => {
      const { body, principal, headers } = request
      const address = clientAddress(request)
      const call = { body: body as BodyOf<Name>, principal, address, headers, reply }
      new Promise((resolve) => resolve(handler(call))).then(
        (result) => {
          answered.inc()
          reply.code(status).send(result)
        },
        (fault) => reply.send(fault),
      )
    }
    mount(name, respond, { last: failEarlier })
  }

  return {
    noteRefusal,
    direct: handleDirectly,
    read(name, find) {
      const [ok, unchanged] = ['2xx', '3xx'].map((status) => metrics.requests.labels(name, status))
      directRoutes.addRead(endpoints[name], find, { 200: () => ok!.inc(), 304: () => unchanged!.inc() })
    },
    handle(name, handler, admit) {
      const { status } = endpoints[name]
      const answered = answeredMetric(name)
      const finish = (reply: FastifyReply, body: unknown) => {
        if (reply.sent) {
          metrics.requests.inc({ endpoint: name, status: `${Math.floor(reply.statusCode / 100)}xx` })
          return
        }
        answered.inc()
        if (reply.statusCode === 200) reply.code(status)
        reply.send(body)
      }
      const respond = (request: FastifyRequest, reply: FastifyReply) => {
        try {
          const result = handler(inputOf(request), reply)
          if (result instanceof Promise) {
            result.then(
              (body) => finish(reply, body),
              (fault) => reply.send(fault),
            )
          } else finish(reply, result)
        } catch (fault) {
          reply.send(fault)
        }
      }
      const admitHook: onRequestHookHandler = (request, _reply, done) => {
        try {
          admit!(request.principal)
          done()
        } catch (fault) {
          done(fault as Error)
        }
      }
      mount(name, respond, admit ? { last: admitHook } : {})
    },
    stream(name, handler) {
      const answer = (request: FastifyRequest, reply: FastifyReply) => {
        const { socket } = reply.raw
        let releaseStream = () => {}
        new Promise<void>((resolve) => {
          releaseStream = openStream(request.principal.keyId)
          resolve(handler(inputOf(request), reply))
        }).then(
          () => {
            if (!socket || socket.destroyed) releaseStream()
            else socket.once('close', releaseStream)
          },
          (fault) => {
            releaseStream()
            if (!reply.sent) reply.send(fault)
          },
        )
      }
      // The parser's socket cannot be detached within its callbacks, which run ticks between chunks of a body.
      mount(name, (request, reply) => void setImmediate(answer, request, reply), {
        first: (_request, reply, done) => {
          claimSocket(reply)
          done()
        },
        // Only refusals pass through here, because a stream takes over its socket.
        onSend: (_request, reply, payload, done) => {
          releaseSocket(reply)
          done(null, payload)
        },
      })
    },
  }
}
