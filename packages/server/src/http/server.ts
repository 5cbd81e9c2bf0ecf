import type { Socket } from 'node:net'
import { type FastifyInstance, type FastifyRequest, fastify } from 'fastify'
import type { Deps } from '../deps.ts'
import { AppError } from '../errors.ts'
import { randomSecret } from '../ids.ts'
import { bodyText, parseJson } from './json.ts'
import { httpLimits } from './limits.ts'
import { isLoopback } from './loopback.ts'
import { problemHandler, sendProblem } from './problem.ts'

function requestIds(): () => string {
  const boot = randomSecret(6)
  let count = 0
  return () => `${boot}-${(count++).toString(36)}`
}

/** An answer to bytes that are no HTTP request. */
function refuseGarbage(fault: Error & { code?: string }, socket: Socket): void {
  if (!socket.writable || fault.code === 'ECONNRESET') return void socket.destroy()
  const status =
    { HPE_HEADER_OVERFLOW: '431 Request Header Fields Too Large', ERR_HTTP_REQUEST_TIMEOUT: '408 Request Timeout' }[
      fault.code ?? ''
    ] ?? '400 Bad Request'
  const body = JSON.stringify({ error: 'The request is malformed.' })
  socket.end(
    `HTTP/1.1 ${status}\r\ncontent-type: application/json; charset=utf-8\r\nx-error-code: invalid\r\ncontent-length: ${body.length}\r\nconnection: close\r\n\r\n${body}`,
  )
}

/**
 * A web page can point its own name at 127.0.0.1 and then read a service that trusts the loopback address
 * (DNS rebinding). On loopback only loopback names are served, unless a trusted proxy speaks.
 */
function localHostCheck(): (request: FastifyRequest) => void {
  let accepted: string | undefined
  return ({ headers: { host } }) => {
    if (host !== undefined && host === accepted) return
    if (!isLoopback(host?.replace(/:\d+$/, '') ?? '')) {
      throw new AppError('wrong_host', 'This service answers only to loopback host names.')
    }
    accepted = host
  }
}

/** The HTTP server without a route: limits, body parsing, error answers. */
export function createServer({
  config,
  log,
  clock,
  metrics,
}: Pick<Deps, 'config' | 'log' | 'clock' | 'metrics'>): FastifyInstance {
  const app = fastify({
    logger: false,
    genReqId: requestIds(),
    trustProxy: config.trustedProxies ?? false,
    exposeHeadRoutes: false,
    requestTimeout: httpLimits.requestTimeoutMs,
    keepAliveTimeout: httpLimits.keepAliveMs,
    connectionTimeout: 0,
    forceCloseConnections: 'idle',
    http: {
      headersTimeout: httpLimits.headersTimeoutMs,
      connectionsCheckingInterval: httpLimits.connectionsCheckMs,
      maxHeaderSize: httpLimits.headerBytes,
    },
    clientErrorHandler: refuseGarbage as never,
    // A number where a string belongs is refused, not converted. Verbose: the sentence for the caller needs the schema.
    ajv: { customOptions: { coerceTypes: false, removeAdditional: false, useDefaults: false, verbose: true } },
  })
  app.server.maxConnections = httpLimits.connections

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
  app.addContentTypeParser('application/x-ndjson', { parseAs: 'buffer' }, (request, body, done) => {
    if (request.routeOptions.config.rawBody) return done(null, body)
    done(new AppError('unsupported_media_type', 'The body must be application/json.'))
  })

  const assertHost = isLoopback(config.host) && !config.trustedProxies ? localHostCheck() : () => {}
  app.addHook('onRequest', (request, reply, done) => {
    // No answer may be taken for anything but what it says it is.
    reply.header('x-content-type-options', 'nosniff')
    try {
      assertHost(request)
      done()
    } catch (fault) {
      done(fault as Error)
    }
  })
  app.setErrorHandler(problemHandler({ log, clock, metrics }))
  app.setNotFoundHandler((_request, reply) =>
    sendProblem({ code: 'not_found', message: 'There is no such route.' }, reply),
  )
  return app
}
