import { isIP } from 'node:net'
import type { FastifyRequest } from 'fastify'

/** Converts an IPv4-mapped IPv6 address to IPv4. */
export const plainAddress = (address: string | undefined): string | null =>
  address?.startsWith('::') ? address.replace(/^::ffff:(?=\d+\.)/i, '') : (address ?? null)

/** Longest form of an IPv6 address without a zone, which could have any length. */
const longestAddress = 45

/** Returns the address of an X-Forwarded-For entry, without the port that some proxies add. */
function forwardedAddress(entry: string): string | undefined {
  const [, literal, dotted] = /^(?:\[([^\]]+)\]|([\d.]+))(?::\d{1,5})?$/.exec(entry) ?? []
  const address = literal ?? dotted ?? entry
  return address.length <= longestAddress && isIP(address) !== 0 ? address : undefined
}

/**
 * Returns the client's address, with IPv4-mapped IPv6 addresses as IPv4. If a trusted proxy forwards an invalid one,
 * returns the proxy's address: limits count by address, and a client could evade them with a new text per request.
 * Null if the connection was reset while the request was read; the request is still handled.
 */
export function clientAddress(request: FastifyRequest): string | null {
  const ip = request.ip as string | undefined
  return ip === undefined ? null : plainAddress(forwardedAddress(ip) ?? request.raw.socket.remoteAddress)
}

/** Returns the actor of a change for the audit log. */
export function requestActor(request: FastifyRequest) {
  const { keyId, name, scope } = request.principal
  return { keyId, name, scope, ip: clientAddress(request), requestId: String(request.id) }
}
