import type { Server } from 'node:http'
import { BlockList, isIPv6, type Socket } from 'node:net'
import { isLoopback } from '@wardline/text'
import type { Config } from '../config/config.ts'
import type { Metrics } from '../metrics.ts'
import { plainAddress } from './actor.ts'
import { addressGroup } from './address-group.ts'

interface Counted {
  /** Over the cap: requests need a key or session. */
  isBeyond: boolean
  release(): void
}

/** Connections that count towards their address's cap: not exempt, and without a valid key so far. */
const counted = new WeakMap<Socket, Counted>()

export const isBeyondCap = (socket: Socket): boolean => counted.get(socket)?.isBeyond ?? false

/** Stops counting the connection towards its address's cap, after a valid key was presented. */
export function admitConnection(socket: Socket): void {
  counted.get(socket)?.release()
}

/** Returns a check for addresses of trusted proxies. */
export function proxyCheck({ trustedProxies = [] }: Pick<Config, 'trustedProxies'>): (address: string) => boolean {
  const proxies = new BlockList()
  for (const range of trustedProxies) {
    const [network = '', bits] = range.split('/')
    const family = isIPv6(network) ? 'ipv6' : 'ipv4'
    proxies.addSubnet(network, Number(bits ?? (family === 'ipv6' ? 128 : 32)), family)
  }
  return (address) => {
    const plain = plainAddress(address)
    return proxies.check(plain, isIPv6(plain) ? 'ipv6' : 'ipv4')
  }
}

/** Returns a check for addresses shared by many clients: loopback and the trusted proxies. */
export function exemptAddresses(config: Pick<Config, 'trustedProxies'>): (address: string) => boolean {
  const isProxy = proxyCheck(config)
  return (address) => isLoopback(plainAddress(address)) || isProxy(address)
}

/**
 * Limits the connections per address. A key holder may share an attacker's address, so up to the same number of further
 * connections is accepted, for requests with a key.
 */
export function capConnections(server: Server, config: Config, { connectionsRefused }: Metrics): void {
  const limit = config.maxConnectionsPerAddress
  const isExempt = exemptAddresses(config)
  const perAddress = new Map<string, number>()
  server.on('drop', () => connectionsRefused.inc({ reason: 'total' }))
  server.on('connection', (socket: Socket) => {
    const { remoteAddress } = socket
    if (remoteAddress === undefined || isExempt(remoteAddress)) return
    const address = addressGroup(remoteAddress)
    const open = (perAddress.get(address) ?? 0) + 1
    if (open > limit) connectionsRefused.inc({ reason: 'address' })
    if (open > 2 * limit) return void socket.destroy()
    perAddress.set(address, open)
    const release = () => {
      if (!counted.delete(socket)) return
      const left = perAddress.get(address)! - 1
      if (left > 0) perAddress.set(address, left)
      else perAddress.delete(address)
    }
    counted.set(socket, { isBeyond: open > limit, release })
    socket.on('close', release)
  })
}
