import {
  type BodyOf,
  type Endpoint,
  type EndpointName,
  endpoints,
  limits,
  type ParamsOf,
  type QueryOf,
  type ReplyOf,
  type Scope,
} from '@wardline/contract'
import type { FastifyInstance, FastifyReply, FastifyRequest, onRequestHookHandler } from 'fastify'
import type { Metrics } from '../metrics.ts'
import { type Authenticator, authenticate, type Principal } from './auth.ts'

declare module 'fastify' {
  interface FastifyRequest {
    principal: Principal
  }
  interface FastifyContextConfig {
    /** Name in the endpoint table. */
    endpoint?: EndpointName
    /** The handler reads the bytes itself. */
    rawBody?: boolean
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

/** Takes over the raw answer; whatever it throws before the first byte becomes a problem answer. */
export type StreamHandler<Name extends EndpointName> = (input: Input<Name>, reply: FastifyReply) => Promise<void> | void

export interface Router {
  /** Serves an endpoint that answers with one JSON body. */
  handle<Name extends EndpointName>(name: Name, handler: Handler<Name>): void
  /** Serves an endpoint that answers with Server-Sent Events. */
  stream<Name extends EndpointName>(name: Name, handler: StreamHandler<Name>): void
}

interface RouterOptions {
  authenticator: Authenticator
  metrics: Metrics
  /** Who may call the endpoints whose access depends on the configuration. */
  configured: Record<'stream' | 'metrics', 'open' | readonly Scope[]>
}

/** Whoever calls without a key, where none is needed. */
export const open: Principal = { keyId: 'none', scope: 'viewer', instances: [] }

function schemaOf({ params, query, body }: Endpoint) {
  return { ...(params ? { params } : {}), ...(query ? { querystring: query } : {}), ...(body ? { body } : {}) }
}

function inputOf<Name extends EndpointName>(request: FastifyRequest): Input<Name> {
  const { params, query, body, principal } = request
  return { params, query, body, principal, request } as Input<Name>
}

/** Binds handlers to the endpoint table: authenticate, validate, handle, reply. */
export function createRouter(app: FastifyInstance, { authenticator, metrics, configured }: RouterOptions): Router {
  app.decorateRequest('principal', null as unknown as Principal)

  function authenticateHook(endpoint: Endpoint): onRequestHookHandler {
    const access =
      endpoint.access === 'stream' || endpoint.access === 'metrics' ? configured[endpoint.access] : endpoint.access
    if (access === 'open') {
      return (request, _reply, done) => {
        request.principal = open
        done()
      }
    }
    return (request, _reply, done) => {
      try {
        const principal = authenticate(request, access, authenticator)
        if (!(principal instanceof Promise)) {
          request.principal = principal
          return done()
        }
        principal.then((found) => {
          request.principal = found
          done()
        }, done)
      } catch (fault) {
        done(fault as Error)
      }
    }
  }

  function mount(name: EndpointName, respond: (request: FastifyRequest, reply: FastifyReply) => void) {
    const endpoint: Endpoint = endpoints[name]
    app.route({
      method: endpoint.method,
      url: endpoint.path,
      schema: schemaOf(endpoint),
      config: { endpoint: name, rawBody: endpoint.rawBody !== undefined },
      bodyLimit: endpoint.rawBody ? limits.batchBytes : limits.bodyBytes,
      onRequest: authenticateHook(endpoint),
      handler: respond,
    })
  }

  return {
    handle(name, handler) {
      const { status } = endpoints[name]
      const answered = metrics.requests.labels(name, `${Math.floor(status / 100)}xx`)
      const finish = (reply: FastifyReply, body: unknown) => {
        if (reply.sent) {
          metrics.requests.inc({ endpoint: name, status: `${Math.floor(reply.statusCode / 100)}xx` })
          return
        }
        answered.inc()
        if (reply.statusCode === 200) reply.code(status)
        reply.send(body)
      }
      mount(name, (request, reply) => {
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
      })
    },
    stream(name, handler) {
      mount(name, (request, reply) => {
        new Promise<void>((resolve) => resolve(handler(inputOf(request), reply))).catch((fault) => {
          if (!reply.sent) reply.send(fault)
        })
      })
    },
  }
}
