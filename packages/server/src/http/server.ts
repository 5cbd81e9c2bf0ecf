import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from 'fastify'
import type { TSchema } from 'typebox'
import type { Deps } from '../deps.ts'
import { AppError } from '../errors.ts'
import { randomSecret } from '../ids.ts'
import { lazyCheck } from '../validation.ts'
import { sessionToken } from './auth.ts'
import { capConnections, isBeyondCap } from './connections.ts'
import { createHostCheck } from './host-check.ts'
import { bodyText, parseJson } from './json.ts'
import { httpLimits } from './limits.ts'
import { problemHandler, sendProblem } from './problem.ts'
import { isClaimed } from './sse.ts'

function requestIds(): () => string {
  const boot = randomSecret(6)
  let count = 0
  return () => `${boot}-${(count++).toString(36)}`
}

/** Whether an answer is under way that a 400 on the same connection would be mistaken for, or cut in two. */
function isAnswering(socket: Socket): boolean {
  const answer = (socket as { _httpMessage?: ServerResponse | null })._httpMessage
  return answer ? answer.headersSent || answer.req.complete : false
}

/** An answer to bytes that are no HTTP request. */
function refuseGarbage(fault: Error & { code?: string }, socket: Socket): void {
  if (!socket.writable || fault.code === 'ECONNRESET' || isClaimed(socket) || isAnswering(socket)) {
    return void socket.destroy()
  }
  const status =
    { HPE_HEADER_OVERFLOW: '431 Request Header Fields Too Large', ERR_HTTP_REQUEST_TIMEOUT: '408 Request Timeout' }[
      fault.code ?? ''
    ] ?? '400 Bad Request'
  const body = JSON.stringify({ error: 'The request is malformed.' })
  socket.end(
    `HTTP/1.1 ${status}\r\ncontent-type: application/json; charset=utf-8\r\nx-error-code: invalid\r\ncontent-length: ${body.length}\r\nconnection: close\r\n\r\n${body}`,
  )
  // A client that does not close its side would otherwise keep its place for ever.
  socket.destroySoon()
}

/** Serves one request on a connection beyond the cap of its address, if it presents a key. */
function assertKeyBeyondCap(request: FastifyRequest, reply: FastifyReply): void {
  reply.header('connection', 'close')
  if (request.headers['x-monitor-key'] !== undefined || sessionToken(request) !== undefined) return
  throw new AppError('quota_exceeded', 'Too many connections without a valid key are open from this address.', 5)
}

const compileLate = ({ schema }: { schema: TSchema }) => lazyCheck(schema)

/** RFC 9512, and what was sent before it. */
const yamlTypes = ['application/yaml', 'application/x-yaml', 'text/yaml', 'text/x-yaml']

export type ServerTools = Pick<Deps, 'config' | 'log' | 'clock' | 'metrics'>

/** The path cannot be decoded, or a part of it is longer than any id: no route, and none of its hooks, sees it. */
const malformedPath = new AppError('invalid', 'The path is malformed.')

/** The answer where there is no route. */
export function sendUnknownRoute(_request: FastifyRequest, reply: FastifyReply): void {
  sendProblem({ code: 'not_found', message: 'Unknown route.' }, reply)
}

interface ServerParts {
  assertHost?: ReturnType<typeof createHostCheck>
  answerUnknown?: (request: FastifyRequest, reply: FastifyReply) => void
}

/** The HTTP server without a route: limits, body parsing, error answers. */
export function createServer(
  { config, log, clock, metrics }: ServerTools,
  { assertHost = createHostCheck(config), answerUnknown = sendUnknownRoute }: ServerParts = {},
): FastifyInstance {
  /** What holds for every request, whatever it asks for. False when it gets no answer. Throws AppError. */
  function admit(request: FastifyRequest, reply: FastifyReply): boolean {
    // No answer may be taken for anything but what it says it is.
    reply.header('x-content-type-options', 'nosniff')
    const { socket } = request.raw
    // Unanswered: whatever follows a request for a stream ends the connection.
    if (isClaimed(socket)) {
      socket.destroy()
      return false
    }
    if (isBeyondCap(socket)) assertKeyBeyondCap(request, reply)
    assertHost(request.raw)
    return true
  }
  const app = fastify({
    frameworkErrors: (_fault, request, reply) => {
      metrics.requests.inc({ endpoint: 'other', status: '4xx' })
      try {
        if (admit(request, reply)) sendProblem(malformedPath, reply)
      } catch (fault) {
        sendProblem(fault as AppError, reply)
      }
    },
    logger: false,
    genReqId: requestIds(),
    trustProxy: config.trustedProxies ?? false,
    exposeHeadRoutes: false,
    requestTimeout: httpLimits.requestTimeoutMs,
    keepAliveTimeout: httpLimits.keepAliveMs,
    connectionTimeout: httpLimits.stallMs,
    forceCloseConnections: 'idle',
    http: {
      headersTimeout: httpLimits.headersTimeoutMs,
      connectionsCheckingInterval: httpLimits.connectionsCheckMs,
      maxHeaderSize: httpLimits.headerBytes,
    },
    clientErrorHandler: refuseGarbage as never,
    schemaController: {
      compilersFactory: {
        buildValidator: (() => compileLate) as never,
        // No answer has a schema; without this Fastify loads a compiler of serializers.
        buildSerializer: () => () => JSON.stringify,
      },
    },
  })
  app.server.maxConnections = httpLimits.connections
  capConnections(app.server, config, metrics)

  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (request, body, done) => {
    try {
      const bytes = body as Buffer
      if (request.routeOptions.config.rawBody) return done(null, bytes)
      done(null, bytes.length === 0 ? undefined : parseJson(bodyText(bytes)))
    } catch (fault) {
      done(fault as Error)
    }
  })
  app.addContentTypeParser(yamlTypes, { parseAs: 'buffer' }, (request, body, done) => {
    try {
      if (request.routeOptions.config.yaml) return done(null, { rule: bodyText(body as Buffer) })
      throw new AppError('unsupported_media_type', 'The body must be application/json.')
    } catch (fault) {
      done(fault as Error)
    }
  })
  app.addContentTypeParser('application/x-ndjson', { parseAs: 'buffer' }, (request, body, done) => {
    if (request.routeOptions.config.rawBody) return done(null, body)
    done(new AppError('unsupported_media_type', 'The body must be application/json.'))
  })

  app.addHook('onRequest', (request, reply, done) => {
    try {
      if (admit(request, reply)) done()
    } catch (fault) {
      done(fault as Error)
    }
  })
  app.setErrorHandler(problemHandler({ log, clock, metrics }))
  app.setNotFoundHandler(answerUnknown)
  return app
}
