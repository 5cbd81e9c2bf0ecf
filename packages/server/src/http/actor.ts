import type { FastifyRequest } from 'fastify'

/**
 * The client's address; an IPv4 address in IPv6 form is shown as IPv4. Null when the connection was reset while the
 * request was read: what it asks for is done all the same.
 */
export function clientAddress(request: FastifyRequest): string | null {
  const ip = request.ip as string | undefined
  return ip?.replace(/^::ffff:(?=\d+\.)/, '') ?? null
}

/** Who asked for a change, as the audit log writes it. */
export function requestActor(request: FastifyRequest) {
  const { keyId, name, scope } = request.principal
  return { keyId, name, scope, ip: clientAddress(request), requestId: String(request.id) }
}
