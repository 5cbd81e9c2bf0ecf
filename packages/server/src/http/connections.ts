import type { Server } from 'node:http'
import { BlockList, isIPv6, type Socket } from 'node:net'
import { isLoopback } from '@wardline/text'
import type { Config } from '../config.ts'
import type { Metrics } from '../metrics.ts'
import { addressGroup } from './address-group.ts'

interface Counted {
  /** Beyond the cap: only a valid key is served on it. */
  isBeyond: boolean
  release(): void
}

/** Connections that count for their address; those of exempt addresses, or with a valid key, are not here. */
const counted = new WeakMap<Socket, Counted>()

export const isBeyondCap = (socket: Socket): boolean => counted.get(socket)?.isBeyond ?? false

/** A valid key was presented: the connection no longer counts for its address. */
export function admitConnection(socket: Socket): void {
  counted.get(socket)?.release()
}

/** Addresses that many clients share: this machine, and the proxies in front of it. */
export function exemptAddresses({ trustedProxies = [] }: Pick<Config, 'trustedProxies'>): (address: string) => boolean {
  const proxies = new BlockList()
  for (const range of trustedProxies) {
    const [network = '', bits] = range.split('/')
    const family = isIPv6(network) ? 'ipv6' : 'ipv4'
    proxies.addSubnet(network, Number(bits ?? (family === 'ipv6' ? 128 : 32)), family)
  }
  return (address) => {
    const plain = address.replace(/^::ffff:(?=\d+\.)/i, '')
    return isLoopback(plain) || proxies.check(plain, isIPv6(plain) ? 'ipv6' : 'ipv4')
  }
}

/**
 * One address must not take all connections. Connections beyond the cap are not refused at once, since a key holder may
 * share the address of an attacker: on as many again, a request with a key is read.
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
