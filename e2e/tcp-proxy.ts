import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

/** A way to a server that can fall silent, as when a firewall forgets its connections or a machine loses its power. */
export interface TcpProxy {
  /** The URL with this way in the place of its host and port. */
  through(url: string): string
  /** Bytes carried so far, both ways. */
  bytes(): number
  /** From now on nothing comes through and nothing is refused. What lies on open connections is lost for good. */
  swallow(): void
  /** Falls silent once this many more bytes were carried; resolves then. */
  swallowAfter(bytes: number): Promise<void>
  /** New connections work again; those that fell silent stay so. */
  heal(): void
  close(): Promise<void>
}

export async function startTcpProxy(target: string): Promise<TcpProxy> {
  const { hostname, port } = new URL(target)
  const sockets = new Set<Socket>()
  /** Grows with each silence: connections of an earlier time carry nothing more. */
  let epoch = 0
  let silent = false
  let carried = 0
  let limit = { bytes: Infinity, reached: () => {} }

  const swallow = () => {
    silent = true
    epoch += 1
  }

  const track = (socket: Socket) => {
    sockets.add(socket)
    // A connection that breaks is closed on both sides; the error itself does not matter here.
    socket.on('error', () => {})
    socket.once('close', () => sockets.delete(socket))
  }

  // What is silent does not say goodbye either.
  const server = createServer({ allowHalfOpen: true }, (client) => {
    track(client)
    if (silent) return void client.resume()
    const born = epoch
    const upstream = connect({ port: Number(port), host: hostname, allowHalfOpen: true })
    track(upstream)
    const carry = (from: Socket, to: Socket) => {
      from.on('data', (chunk) => {
        if (born !== epoch) return
        carried += chunk.length
        if (carried > limit.bytes) {
          limit.bytes = Infinity
          swallow()
          return limit.reached()
        }
        if (!to.write(chunk)) {
          from.pause()
          to.once('drain', () => from.resume())
        }
      })
      from.once('end', () => {
        if (born === epoch) to.end()
      })
      from.once('close', () => {
        if (born === epoch) to.destroy()
      })
    }
    carry(client, upstream)
    carry(upstream, client)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const own = (server.address() as AddressInfo).port

  return {
    through(url) {
      const changed = new URL(url)
      changed.hostname = '127.0.0.1'
      changed.port = String(own)
      return changed.href
    },
    bytes: () => carried,
    swallow,
    swallowAfter: (bytes) =>
      new Promise((reached) => {
        limit = { bytes: carried + bytes, reached }
      }),
    heal() {
      silent = false
    },
    async close() {
      server.close()
      for (const socket of sockets) socket.destroy()
      await once(server, 'close')
    },
  }
}
