import type { FastifyReply, FastifyRequest } from 'fastify'
import { isoTime } from '../clock.ts'
import { type Principal, type SessionProof, sessionCookie } from './auth.ts'

/** The `__Host-` prefix and `Secure` require HTTPS, which a trusted proxy terminates. */
export function setCookie(request: FastifyRequest, reply: FastifyReply, value: string, maxAgeSeconds: number): void {
  const secure = request.protocol === 'https'
  const name = sessionCookie(request)
  const attributes = `HttpOnly; SameSite=Strict; Path=/; Max-Age=${maxAgeSeconds}${secure ? '; Secure' : ''}`
  reply.header('set-cookie', `${name}=${value}; ${attributes}`)
}

/** Sets the cookie of a new session and returns the body of the response. */
export function sendSession(
  request: FastifyRequest,
  reply: FastifyReply,
  { scope }: Principal,
  { token, secret, expiresAt }: SessionProof & { expiresAt: number },
  now: number,
) {
  setCookie(request, reply, token, Math.floor((expiresAt - now) / 1000))
  return { ok: true, scope, secret, expires_at: isoTime(expiresAt) } as const
}

export const deviceOf = ({ headers }: FastifyRequest): string | undefined => headers['user-agent']
