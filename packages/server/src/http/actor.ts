import { isIP } from 'node:net'
import type { FastifyRequest } from 'fastify'

/** Converts an IPv4-mapped IPv6 address to IPv4. */
export function plainAddress(address: string): string
export function plainAddress(address: string | undefined): string | null
export function plainAddress(address: string | undefined): string | null {
  return address?.startsWith('::') ? address.replace(/^::ffff:(?=\d+\.)/i, '') : (address ?? null)
}

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

/** Like `clientAddress`, for requests outside of the framework: the address that the last trusted proxy forwards. */
export function forwardedClient(
  remote: string | undefined,
  forwarded: string | undefined,
  isProxy: (address: string) => boolean,
): string | null {
  let address = remote
  // Each proxy appends the address it was called from. What is left of an address that is no proxy may be made up.
  for (const entry of forwarded?.split(',').toReversed() ?? []) {
    const next = address !== undefined && isProxy(address) ? forwardedAddress(entry.trim()) : undefined
    if (next === undefined) break
    address = next
  }
  return plainAddress(address)
}

/** Returns the actor of a change for the audit log, by default the caller. */
export function requestActor(request: FastifyRequest, { keyId, name, scope } = request.principal) {
  return { keyId, name, scope, ip: clientAddress(request), requestId: String(request.id) }
}
