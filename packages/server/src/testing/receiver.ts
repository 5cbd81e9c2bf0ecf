import { once } from 'node:events'
import { createServer as createHttpServer, type IncomingHttpHeaders } from 'node:http'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { connect as connectTls, createServer as createTlsServer } from 'node:tls'
import type { TestCertificate } from '../../../../test-servers/certificate.ts'
import type { Egress } from '../egress/egress.ts'

/** Opens an egress without restrictions, for sending to test receivers. */
export function openEgress(trusted?: TestCertificate): Egress {
  return {
    async post({ url, headers, body }, signal) {
      const init = { method: 'POST', headers, body, redirect: 'manual', signal: signal ?? null } as const
      const answer = await fetch(url, init)
      return { status: answer.status, headers: Object.fromEntries(answer.headers), body: await answer.text() }
    },
    async connect({ host, port, tls }, signal) {
      const socket = tls ? connectTls({ host, port, ca: trusted?.cert }) : connect({ host, port })
      await once(socket, tls ? 'secureConnect' : 'connect', { signal })
      return socket
    },
    close() {},
  }
}

interface HttpReceiver extends AsyncDisposable {
  /** Without a trailing slash. */
  url: string
  received: { path: string; headers: IncomingHttpHeaders; body: string }[]
}

/** Starts a receiver that sends every request the same response. */
export async function startHttpReceiver(answer: { status: number; body: string }): Promise<HttpReceiver> {
  const received: HttpReceiver['received'] = []
  const server = createHttpServer(async (request, response) => {
    const chunks: Buffer[] = await request.toArray()
    received.push({ path: request.url ?? '', headers: request.headers, body: Buffer.concat(chunks).toString() })
    response.writeHead(answer.status, { connection: 'close' }).end(answer.body)
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await once(server.close(), 'close')
    },
  }
}

interface SocketReceiver extends AsyncDisposable {
  url: string
  /** All that connections brought, one text for each that has ended or has been served otherwise. */
  received: string[]
  sockets: Socket[]
}

/** Starts a receiver that reads each connection to its end and closes it, unless `serve` handles it. */
export async function startSocketReceiver(
  options: { certificate?: TestCertificate; serve?: (socket: Socket) => void } = {},
): Promise<SocketReceiver> {
  const { certificate, serve } = options
  const received: string[] = []
  const sockets: Socket[] = []
  const accept = async (socket: Socket): Promise<void> => {
    sockets.push(socket)
    // A test that breaks a connection sees the error on its own side.
    socket.on('error', () => {})
    if (serve) return serve(socket)
    const chunks: Buffer[] = await socket.toArray()
    received.push(Buffer.concat(chunks).toString())
    socket.end()
  }
  // Half-open connections: the receiver's side must stay open after the client ends its side.
  const server = certificate
    ? createTlsServer({ ...certificate, allowHalfOpen: true }, accept)
    : createServer({ allowHalfOpen: true }, accept)
  const connections: Socket[] = []
  server.on('connection', (connection) => connections.push(connection))
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return {
    url: `${certificate ? 'tls' : 'tcp'}://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received,
    sockets,
    async [Symbol.asyncDispose]() {
      for (const connection of connections) connection.destroy()
      await once(server.close(), 'close')
    },
  }
}
