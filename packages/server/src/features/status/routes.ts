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
  const counts = async (now: number) => {
    const [stats, toolCalls] = await database.scan('status', (db) =>
      Promise.all([severityCounts(db, now), toolCounts(db, now)]),
    )
    return { stats, toolCalls }
  }
  const whole = new SharedAnswer(async () => {
    const now = clock.now()
    const [{ instances, omitted }, counted] = await Promise.all([fleetLists.read(now), counts(now)])
    const rest = JSON.stringify({ ...(omitted > 0 ? { instances_omitted: omitted } : {}), ...counted })
    return `{"instances":[${instances.join(',')}],${rest.slice(1)}`
  })
  const countsAlone = new SharedAnswer(async () => JSON.stringify({ instances: [], ...(await counts(clock.now())) }))
  router.handle('getStatus', async ({ query }, reply) => {
    reply.type('application/json; charset=utf-8')
    return (await (query.omit ? countsAlone : whole).read()) as never
  })
}
