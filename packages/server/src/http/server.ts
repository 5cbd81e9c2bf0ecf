import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from 'fastify'
import type { TSchema } from 'typebox'
import type { Deps } from '../deps.ts'
import { AppError } from '../errors.ts'
import { randomSecret } from '../ids.ts'
import { lazyCheck } from '../validation.ts'
import { sessionProof } from './auth.ts'
import { capConnections, isBeyondCap } from './connections.ts'
import { createHostCheck } from './host-check.ts'
import { bodyText, parseJson } from './json.ts'
import { httpLimits } from './limits.ts'
import { bearerOf, protobufType } from './otlp.ts'
import { noStore, problemHandler, sendProblem } from './problem.ts'
import { isSocketClaimed } from './sse.ts'

function requestIds(): () => string {
  const boot = randomSecret(6)
  let count = 0
  return () => `${boot}-${(count++).toString(36)}`
}

/** Whether a response is in progress that a 400 on the same connection could interrupt or be mistaken for. */
function isAnswering(socket: Socket): boolean {
  const answer = (socket as { _httpMessage?: ServerResponse | null })._httpMessage
  return answer ? answer.headersSent || answer.req.complete : false
}

const refusals: Record<string, [status: string, error: string]> = {
  HPE_HEADER_OVERFLOW: [
    '431 Request Header Fields Too Large',
    `The path, query and headers of a request may have at most ${httpLimits.headerBytes / 1024} KiB together.`,
  ],
  ERR_HTTP_REQUEST_TIMEOUT: ['408 Request Timeout', 'The request did not arrive in time.'],
}

/** Responds to bytes that are not a valid HTTP request. */
function refuseGarbage(fault: Error & { code?: string }, socket: Socket): void {
  if (!socket.writable || fault.code === 'ECONNRESET' || isSocketClaimed(socket) || isAnswering(socket)) {
    return void socket.destroy()
  }
  const [status, error] = refusals[fault.code ?? ''] ?? ['400 Bad Request', 'The request is malformed.']
  const body = JSON.stringify({ error })
  socket.end(
    `HTTP/1.1 ${status}\r\ncontent-type: application/json; charset=utf-8\r\nx-error-code: invalid\r\ncache-control: ${noStore}\r\ncontent-length: ${body.length}\r\nconnection: close\r\n\r\n${body}`,
  )
  // Otherwise a client that does not close its side would keep the connection open for ever.
  socket.destroySoon()
}

/** Limits a connection over its address's cap to one request, which must present a key or session. */
function assertKeyBeyondCap(request: FastifyRequest, reply: FastifyReply): void {
  reply.header('connection', 'close')
  const hasBearer = request.routeOptions.config.isOtlp === true && bearerOf(request) !== undefined
  if (hasBearer || request.headers['x-monitor-key'] !== undefined || sessionProof(request) !== undefined) return
  throw new AppError('quota_exceeded', 'Too many connections without a valid key are open from this address.', 5)
}

const compileLate = ({ schema }: { schema: TSchema }) => lazyCheck(schema)

/** The media type of RFC 9512 and its common predecessors. */
const yamlTypes = ['application/yaml', 'application/x-yaml', 'text/yaml', 'text/x-yaml']

export type ServerTools = Pick<Deps, 'config' | 'log' | 'clock' | 'metrics'>

/** The path cannot be decoded, or one of its parts is longer than any id. No route or hook handles such a request. */
const malformedPath = new AppError('invalid', 'The path is malformed.')

export function sendUnknownRoute(_request: FastifyRequest, reply: FastifyReply): void {
  sendProblem({ code: 'not_found', message: 'Unknown route.' }, reply)
}

interface ServerParts {
  assertHost?: ReturnType<typeof createHostCheck>
  answerUnknown?: (request: FastifyRequest, reply: FastifyReply) => void
}

/** Creates the HTTP server without routes: limits, body parsing, error responses. */
export function createServer(
  { config, log, clock, metrics }: ServerTools,
  { assertHost = createHostCheck(config), answerUnknown = sendUnknownRoute }: ServerParts = {},
): FastifyInstance {
  /** Runs the checks for every request. False if the request gets no response. Throws AppError. */
  function admit(request: FastifyRequest, reply: FastifyReply): boolean {
    // Browsers must not guess a response type other than the declared one. No response is stored unless its handler
    // says otherwise: after signing out, the cache of a shared browser must hold nothing of the fleet.
    reply.headers({ 'x-content-type-options': 'nosniff', 'cache-control': noStore })
    const { socket } = request.raw
    // A request pipelined after a stream request closes the connection without a response.
    if (isSocketClaimed(socket)) {
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
    // A metric's name: 100 characters, each at most two units, or three such as %2F.
    routerOptions: { maxParamLength: 300 },
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
        // Responses have no schema; without this Fastify loads its serializer compiler.
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
      const { yaml } = request.routeOptions.config
      if (yaml !== undefined) return done(null, { [yaml]: bodyText(body as Buffer) })
      throw new AppError('unsupported_media_type', 'The body must be application/json.')
    } catch (fault) {
      done(fault as Error)
    }
  })
  app.addContentTypeParser('application/x-ndjson', { parseAs: 'buffer' }, (request, body, done) => {
    if (request.routeOptions.config.rawBody) return done(null, body)
    done(new AppError('unsupported_media_type', 'The body must be application/json.'))
  })

  app.addContentTypeParser('application/x-www-form-urlencoded', { parseAs: 'buffer' }, (request, body, done) => {
    if (request.routeOptions.config.rawBody) return done(null, body)
    done(new AppError('unsupported_media_type', 'The body must be application/json.'))
  })
  app.addContentTypeParser(protobufType, { parseAs: 'buffer' }, (request, body, done) => {
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
