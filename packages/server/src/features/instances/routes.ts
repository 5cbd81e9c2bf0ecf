import { decoysHeader } from '@wardline/contract'
import type { Deps } from '../../deps.ts'
import { assertMayActFor, type Principal } from '../../http/auth.ts'
import type { Router } from '../../http/route.ts'
import { type Heartbeats, viewInstance } from './instances.ts'

const ok = { ok: true } as const

/** `reaches`: whether any decoy could trip for this caller. */
export function mountInstances(
  router: Router,
  { database, clock }: Deps,
  heartbeats: Heartbeats,
  reaches: (principal: Principal) => boolean,
): void {
  router.handle('sendHeartbeat', ({ body, principal }, reply) => {
    assertMayActFor(principal, body.instance_id)
    reply.header(decoysHeader, reaches(principal) ? 'some' : 'none')
    return heartbeats.beat(body).then(() => ok)
  })

  router.handle('getInstance', ({ params }) => viewInstance(database.db, params.instanceId, clock.now()))
}
