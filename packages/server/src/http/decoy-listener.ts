import type { AddressInfo } from 'node:net'
import fastify, { type FastifyReply, type FastifyRequest } from 'fastify'
import type { Config } from '../config.ts'
import { clientAddress } from './actor.ts'

/** A request to the decoy listener. */
export interface Fetched {
  path: string
  method: string
  address: string | null
  /** Names in lower case, repeated headers joined. */
  headers: Record<string, string>
}

const limits = {
  /** Fetches are rare, so more connections are a flood. */
  connections: 500,
  /** Browsers send about 2 KiB. Bodies are not read. */
  headerBytes: 8 * 1024,
  requestTimeoutMs: 5_000,
  keepAliveMs: 1_000,
  connectionsCheckMs: 1_000,
} as const

export interface DecoyListener {
  port: number
  close(): Promise<void>
}

/**
 * Listens for fetches of decoy URLs. Every request gets the same immediate response, so a client can neither tell which
 * URLs are decoys nor see that the database is unavailable.
 */
export async function openDecoyListener(
  { host, decoyHost, decoyPort, trustedProxies }: Pick<Config, 'host' | 'decoyHost' | 'decoyPort' | 'trustedProxies'>,
  onFetch: (fetched: Fetched) => void,
): Promise<DecoyListener> {
  function answer(request: FastifyRequest, reply: FastifyReply): void {
    const headers: Record<string, string> = {}
    for (const [name, value = ''] of Object.entries(request.headers)) headers[name] = [value].flat().join(', ')
    onFetch({ path: request.raw.url ?? '', method: request.method, address: clientAddress(request), headers })
    reply.code(404).headers({ 'content-type': 'text/plain', connection: 'close' }).send('Not Found\n')
  }
  const app = fastify({
    logger: false,
    trustProxy: trustedProxies ?? false,
    exposeHeadRoutes: false,
    requestTimeout: limits.requestTimeoutMs,
    keepAliveTimeout: limits.keepAliveMs,
    forceCloseConnections: true,
    http: {
      headersTimeout: limits.requestTimeoutMs,
      connectionsCheckingInterval: limits.connectionsCheckMs,
      maxHeaderSize: limits.headerBytes,
    },
    // Closes the connection without a response on bytes that are not HTTP.
    clientErrorHandler: (_fault, socket) => void socket.destroy(),
    frameworkErrors: (_fault, request, reply) => answer(request as FastifyRequest, reply as FastifyReply),
  })
  app.server.maxConnections = limits.connections
  // Responds before reading the body, which may be endless and of any type.
  app.addHook('onRequest', (request, reply) => answer(request, reply))
  await app.listen({ host: decoyHost ?? host, port: decoyPort! })
  return { port: (app.server.address() as AddressInfo).port, close: () => app.close() }
}
