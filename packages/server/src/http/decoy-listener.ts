import { once } from 'node:events'
import { createServer, type IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Config } from '../config.ts'
import { forwardedClient } from './actor.ts'
import { proxyCheck } from './connections.ts'
import { type Dropped, WaitingConnections } from './waiting-connections.ts'

/** A request to the decoy listener. */
export interface Fetched {
  /** As the client sent it: a path, a whole URL, or anything else. */
  target: string
  method: string
  address: string | null
  /** Names in lower case, repeated headers joined. */
  headers: Record<string, string>
}

interface DecoyWatch {
  /** Called for each request, after its response was written. */
  take(fetched: Fetched): void
  /** Called for each connection that was closed before it had sent a request. */
  dropped(dropped: Dropped): void
}

const limits = {
  /** Browsers send about 2 KiB. Bodies are not read. */
  headerBytes: 8 * 1024,
  /** Clients send the request as soon as they are connected. Node checks the time at the interval below. */
  requestTimeoutMs: 1_000,
  connectionsCheckMs: 250,
} as const

const body = 'Not Found\n'
const head = { 'content-type': 'text/plain', 'content-length': body.length, connection: 'close' }

/** The request line of bytes that node does not accept as HTTP, such as those with an unknown method or header. */
const requestLine = /^([A-Za-z-]{1,20}) +([^ \r\n]+)/

export interface DecoyListener {
  port: number
  close(): Promise<void>
}

/**
 * Listens for fetches of decoy URLs. Every request gets the same response before anything else is done with it, so a
 * client can neither tell which URLs are decoys nor see that the database is unavailable.
 */
export async function openDecoyListener(
  config: Pick<Config, 'host' | 'decoyHost' | 'decoyPort' | 'trustedProxies'>,
  watch: DecoyWatch,
): Promise<DecoyListener> {
  const isProxy = proxyCheck(config)
  const server = createServer({
    requestTimeout: limits.requestTimeoutMs,
    headersTimeout: limits.requestTimeoutMs,
    connectionsCheckingInterval: limits.connectionsCheckMs,
    maxHeaderSize: limits.headerBytes,
    // Otherwise node answers such requests itself, and the fetch is missed.
    requireHostHeader: false,
  })
  const waiting = new WaitingConnections(server, isProxy, watch.dropped.bind(watch))

  function answer(request: IncomingMessage, response: ServerResponse): void {
    response.writeHead(404, head).end(body)
    const { socket, method = '' } = request
    waiting.end(socket)
    const headers: Record<string, string> = {}
    for (const [name, value = ''] of Object.entries(request.headers)) headers[name] = [value].flat().join(', ')
    const address = forwardedClient(socket.remoteAddress, headers['x-forwarded-for'], isProxy)
    watch.take({ target: request.url ?? '', method, address, headers })
  }

  // Node answers requests with these headers or methods itself unless there is a listener.
  for (const event of ['request', 'checkContinue', 'checkExpectation'] as const) server.on(event, answer)
  server.on('connect', (request, socket) => {
    const response = new ServerResponse(request)
    response.assignSocket(socket as Socket)
    response.on('finish', () => (socket as Socket).destroySoon())
    // Node removes its own listener here, and an error without one ends the process.
    socket.on('error', () => socket.destroy())
    answer(request, response)
  })

  // Closes the connection without a response on bytes that are not HTTP, and on a request that takes too long.
  server.on('clientError', (fault: NodeJS.ErrnoException & { rawPacket?: Buffer }, stream) => {
    const socket = stream as Socket
    if (fault.code === 'ERR_HTTP_REQUEST_TIMEOUT') waiting.drop(socket, 'timeout')
    const address = forwardedClient(socket.remoteAddress, undefined, isProxy)
    socket.destroy()
    if (!waiting.end(socket) || !fault.rawPacket) return
    const [, method, target] = requestLine.exec(fault.rawPacket.toString('latin1', 0, limits.headerBytes)) ?? []
    if (method !== undefined && target !== undefined) watch.take({ target, method, address, headers: {} })
  })

  server.listen({ host: config.decoyHost ?? config.host, port: config.decoyPort! })
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    close: async () => {
      const closed = once(server, 'close')
      server.close()
      server.closeAllConnections()
      await closed
    },
  }
}
