import { supervisorHeader } from '@wardline/contract'
import type { Principal } from './auth.ts'
import type { HeaderTarget } from './direct.ts'

/** Says in the answer whether what a supervisor sent counts, if the request has such. */
export function answerSupervisor(
  reply: HeaderTarget,
  sent: unknown,
  { supervises }: Pick<Principal, 'supervises'>,
): void {
  if (sent !== undefined) reply.header(supervisorHeader, supervises ? 'proves' : 'ignored')
}
