import { isIP } from 'node:net'
import type { FastifyRequest } from 'fastify'

/** An IPv4 address in IPv6 form as IPv4. */
export const plainAddress = (address: string | undefined): string | null =>
  address?.startsWith('::') ? address.replace(/^::ffff:(?=\d+\.)/i, '') : (address ?? null)

/** The longest form of an IPv6 address; a zone behind it may have any length. */
const longestAddress = 45

/** The address in an entry of X-Forwarded-For: some proxies add the port, which differs with each connection. */
function forwardedAddress(entry: string): string | undefined {
  const [, literal, dotted] = /^(?:\[([^\]]+)\]|([\d.]+))(?::\d{1,5})?$/.exec(entry) ?? []
  const address = literal ?? dotted ?? entry
  return address.length <= longestAddress && isIP(address) !== 0 ? address : undefined
}

/**
 * The client's address; an IPv4 address in IPv6 form is shown as IPv4. Where a trusted proxy passes on what is none, it
 * is the address of the proxy: limits count by address, and a text that the client chose would be a new one each time.
 * Null when the connection was reset while the request was read: what it asks for is done all the same.
 */
export function clientAddress(request: FastifyRequest): string | null {
  const ip = request.ip as string | undefined
  return ip === undefined ? null : plainAddress(forwardedAddress(ip) ?? request.raw.socket.remoteAddress)
}

/** The actor of a change, as the audit log writes it. */
export function requestActor(request: FastifyRequest) {
  const { keyId, name, scope } = request.principal
  return { keyId, name, scope, ip: clientAddress(request), requestId: String(request.id) }
}
