import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

/** A proxy that can drop all packets, like a firewall that forgets its connections or a machine without power. */
export interface TcpProxy {
  /** Returns the URL with host and port of the proxy. */
  through(url: string): string
  /** From now on new connections lead to another server, like a service address that moved. */
  aim(target: string): void
  /** Bytes transferred in both directions. */
  bytes(): number
  /** From now on nothing is transferred and nothing is refused. Data on open connections is lost. */
  swallow(): void
  /** Drops everything after this many more bytes; resolves then. */
  swallowAfter(bytes: number): Promise<void>
  /** New connections work again; existing ones remain silent. */
  heal(): void
  close(): Promise<void>
}

export async function startTcpProxy(target: string): Promise<TcpProxy> {
  let { hostname, port } = new URL(target)
  const sockets = new Set<Socket>()
  /** Incremented by each silence: connections of earlier generations transfer nothing. */
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
    // A broken connection is closed on both sides; the error is irrelevant here.
    socket.on('error', () => {})
    socket.once('close', () => sockets.delete(socket))
  }

  // A silent connection sends no FIN either.
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
    aim(target) {
      ;({ hostname, port } = new URL(target))
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
