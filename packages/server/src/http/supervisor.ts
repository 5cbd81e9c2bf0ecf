import { supervisorHeader } from '@wardline/contract'
import type { FastifyReply } from 'fastify'
import type { Principal } from './auth.ts'

/** Says in the answer whether what a supervisor sent counts, if the request has such. */
export function answerSupervisor(
  reply: FastifyReply,
  sent: unknown,
  { supervises }: Pick<Principal, 'supervises'>,
): void {
  if (sent !== undefined) reply.header(supervisorHeader, supervises ? 'proves' : 'ignored')
}
