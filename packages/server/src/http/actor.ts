import type { FastifyRequest } from 'fastify'

/** The client's address; an IPv4 address in IPv6 form is shown as IPv4. */
export const clientAddress = (request: FastifyRequest): string => request.ip.replace(/^::ffff:(?=\d+\.)/, '')

/** Who asked for a change, as the audit log writes it. */
export function requestActor(request: FastifyRequest) {
  const { keyId, scope } = request.principal
  return { keyId, scope, ip: clientAddress(request), requestId: String(request.id) }
}
