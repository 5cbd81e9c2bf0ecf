import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { addressGroup } from './address-group.ts'

const limits = {
  /** Fetches are rare and take milliseconds, so more connections are a flood. */
  total: 500,
  /** Enough for an office behind one address; ten addresses are needed to reach the total. */
  perAddress: 50,
} as const

/** `address`, `total`: the limit that was reached. `timeout`: no request arrived in time. */
type DropReason = 'address' | 'total' | 'timeout'

export interface Dropped {
  reason: DropReason
  address: string
}

/**
 * Limits the connections of a server that have not sent a request yet. At a limit, a new connection replaces the oldest
 * one: an attacker's idle connections cannot keep out a client that sends its request at once.
 */
export class WaitingConnections {
  /** Oldest first, as are those of each address. */
  readonly #waiting = new Map<Socket, string>()
  readonly #byGroup = new Map<string, Set<Socket>>()
  readonly #isProxy: (address: string) => boolean
  readonly #onDrop: (dropped: Dropped) => void

  /** Proxies are shared by many clients, so only the total applies to them. */
  constructor(server: Server, isProxy: (address: string) => boolean, onDrop: (dropped: Dropped) => void) {
    this.#isProxy = isProxy
    this.#onDrop = onDrop
    server.on('connection', (socket: Socket) => this.#add(socket))
  }

  /** Returns false if the connection was not waiting any more, because a request or error ended the wait before. */
  end(socket: Socket): boolean {
    const address = this.#waiting.get(socket)
    if (address === undefined) return false
    this.#waiting.delete(socket)
    const group = addressGroup(address)
    const sameGroup = this.#byGroup.get(group)!
    sameGroup.delete(socket)
    if (sameGroup.size === 0) this.#byGroup.delete(group)
    return true
  }

  drop(socket: Socket, reason: DropReason): void {
    const address = this.#waiting.get(socket)
    if (address === undefined) return
    this.end(socket)
    socket.destroy()
    this.#onDrop({ reason, address })
  }

  #add(socket: Socket): void {
    const address = socket.remoteAddress
    // Undefined if the client has reset the connection already.
    if (address === undefined) return void socket.destroy()
    const group = addressGroup(address)
    const sameGroup = this.#byGroup.get(group)
    if (sameGroup && sameGroup.size >= limits.perAddress && !this.#isProxy(address))
      this.drop(oldest(sameGroup), 'address')
    if (this.#waiting.size >= limits.total) this.drop(oldest(this.#waiting.keys()), 'total')
    this.#waiting.set(socket, address)
    this.#byGroup.set(group, (this.#byGroup.get(group) ?? new Set()).add(socket))
    socket.on('close', () => this.end(socket))
  }
}

function oldest(sockets: Iterable<Socket>): Socket {
  for (const socket of sockets) return socket
  throw new Error('no connection is waiting')
}
