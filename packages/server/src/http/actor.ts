import type { FastifyRequest } from 'fastify'

/** An IPv4 address in IPv6 form as IPv4. */
export const plainAddress = (address: string | undefined): string | null =>
  address?.startsWith('::') ? address.replace(/^::ffff:(?=\d+\.)/, '') : (address ?? null)

/**
 * The client's address; an IPv4 address in IPv6 form is shown as IPv4. Null when the connection was reset while the
 * request was read: what it asks for is done all the same.
 */
export function clientAddress(request: FastifyRequest): string | null {
  return plainAddress(request.ip as string | undefined)
}

/** Who asked for a change, as the audit log writes it. */
export function requestActor(request: FastifyRequest) {
  const { keyId, name, scope } = request.principal
  return { keyId, name, scope, ip: clientAddress(request), requestId: String(request.id) }
}
