import type { Deps } from '../../deps.ts'
import { assertMayActFor } from '../../http/auth.ts'
import type { Router } from '../../http/route.ts'
import { type Heartbeats, viewInstance } from './instances.ts'

const ok = { ok: true } as const

export function mountInstances(router: Router, { database, clock }: Deps, heartbeats: Heartbeats): void {
  router.handle('sendHeartbeat', ({ body, principal }) => {
    assertMayActFor(principal, body.instance_id)
    return heartbeats.beat(body).then(() => ok)
  })

  router.handle('getInstance', ({ params }) => viewInstance(database.db, params.instanceId, clock.now()))
}
