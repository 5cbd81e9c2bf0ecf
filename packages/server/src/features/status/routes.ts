import type { Deps } from '../../deps.ts'
import type { Router } from '../../http/route.ts'
import { severityCounts, toolCounts } from '../events/counts.ts'
import { viewFleet } from '../instances/instances.ts'

export function mountStatus(router: Router, { database: { db }, clock }: Deps): void {
  router.handle('getStatus', async () => {
    const now = clock.now()
    const [instances, stats, toolCalls] = await Promise.all([
      viewFleet(db, now),
      severityCounts(db, now),
      toolCounts(db, now),
    ])
    return { instances, stats, toolCalls }
  })
}
