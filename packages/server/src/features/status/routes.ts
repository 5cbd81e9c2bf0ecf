import type { Deps } from '../../deps.ts'
import type { Router } from '../../http/route.ts'
import { severityCounts, toolCounts } from '../events/counts.ts'
import type { FleetLists } from '../instances/fleet-list.ts'
import { SharedAnswer } from './shared-answer.ts'

export function mountStatus(
  router: Router,
  { database, clock }: Deps,
  { fleetLists }: { fleetLists: FleetLists },
): void {
  const answer = new SharedAnswer(async () => {
    const now = clock.now()
    const [{ instances, omitted }, [stats, toolCalls]] = await Promise.all([
      fleetLists.read(now),
      database.scan('status', (db) => Promise.all([severityCounts(db, now), toolCounts(db, now)])),
    ])
    const rest = JSON.stringify({ ...(omitted > 0 ? { instances_omitted: omitted } : {}), stats, toolCalls })
    return `{"instances":[${instances.join(',')}],${rest.slice(1)}`
  })
  router.handle('getStatus', async (_input, reply) => {
    reply.type('application/json; charset=utf-8')
    return (await answer.read()) as never
  })
}
