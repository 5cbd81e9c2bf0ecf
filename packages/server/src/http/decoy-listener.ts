import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Deps } from '../deps.ts'
import { forwardedClient } from './actor.ts'
import { proxyCheck } from './connections.ts'
import { FirstBytes } from './first-bytes.ts'
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

export interface DecoyListener {
  port: number
  close(): Promise<void>
}

/**
 * Listens for fetches of decoy URLs. Every request gets the same response before anything else is done with it, so a
 * client can neither tell which URLs are decoys nor see that the database is unavailable.
 */
export async function openDecoyListener(
  { config, clock, log }: Pick<Deps, 'config' | 'clock' | 'log'>,
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
  const firstBytes = new WeakMap<Socket, FirstBytes>()

  /** Anyone can reach this port: no exception here may end the process. */
  function guarded(socket: Socket, work: () => void): void {
    try {
      work()
    } catch (fault) {
      socket.destroy()
      log.error({ err: fault }, 'a request to WARDLINE_DECOY_PORT was not handled')
    }
  }

  const headNow = () => ({
    'content-type': 'text/plain',
    'content-length': body.length,
    connection: 'close',
    date: new Date(clock.now()).toUTCString(),
  })

  function take(request: IncomingMessage, socket: Socket): void {
    const { method = '', url: target = '' } = request
    const first = firstBytes.get(socket)
    first?.report(target)
    // Node reads nothing behind such a request, whether or not it is upgraded.
    if (method === 'CONNECT' || request.headers.upgrade !== undefined) first?.endReading()
    const headers: Record<string, string> = {}
    for (const [name, value = ''] of Object.entries(request.headers)) headers[name] = [value].flat().join(', ')
    const address = forwardedClient(socket.remoteAddress, headers['x-forwarded-for'], isProxy)
    watch.take({ target, method, address, headers })
  }

  server.on('connection', (socket: Socket) => {
    // Read now: a closed connection has no address.
    const address = forwardedClient(socket.remoteAddress, undefined, isProxy)
    const first = new FirstBytes(socket)
    firstBytes.set(socket, first)
    // Invalid bytes, and requests that are incomplete when the connection ends.
    const takeUnreported = () => {
      for (const line of first.unreported()) watch.take({ ...line, address, headers: {} })
    }
    socket.on('close', () => guarded(socket, takeUnreported))
  })

  // Node answers requests with these headers itself unless there is a listener.
  for (const event of ['request', 'checkContinue', 'checkExpectation'] as const) {
    server.on(event, (request: IncomingMessage, response: ServerResponse) =>
      guarded(request.socket, () => {
        response.writeHead(404, headNow()).end(body)
        waiting.end(request.socket)
        take(request, request.socket)
      }),
    )
  }

  // Node closes the connection on this method unless there is a listener, and leaves the socket to it.
  server.on('connect', (request, stream) => {
    const socket = stream as Socket
    // Node removes its own listener here, and an error without one ends the process.
    socket.on('error', () => socket.destroy())
    guarded(socket, () => {
      // Behind another request of the connection, that one's response is the only one.
      if (waiting.end(socket) && socket.writable) {
        const lines = Object.entries(headNow()).map(([name, value]) => `${name}: ${value}\r\n`)
        socket.write(`HTTP/1.1 404 Not Found\r\n${lines.join('')}\r\n${body}`)
      }
      socket.destroySoon()
      take(request, socket)
    })
  })

  // Closes the connection without a response on bytes that are not HTTP, and on a request that takes too long.
  server.on('clientError', (fault: NodeJS.ErrnoException, stream) => {
    const socket = stream as Socket
    guarded(socket, () => {
      if (fault.code === 'ERR_HTTP_REQUEST_TIMEOUT') waiting.drop(socket, 'timeout')
      firstBytes.get(socket)?.endReading()
      socket.destroy()
    })
  })

  server.listen({ host: config.decoyHost ?? config.host, port: config.decoyPort! })
  await once(server, 'listening')
  // A connection that cannot be accepted, such as without file descriptors.
  server.on('error', (fault) => log.warn({ err: fault }, 'WARDLINE_DECOY_PORT cannot accept connections'))
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
