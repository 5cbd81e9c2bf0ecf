import { compressed } from '../../http/compressed.ts'
import { pageLimit } from '../../http/page.ts'
import type { Router } from '../../http/route.ts'
import type { FleetTagCounts } from './fleet-groups.ts'
import type { FleetPages } from './fleet-pages.ts'
import type { FleetSummaries } from './fleet-summary.ts'

interface FleetRoutes {
  fleetPages: FleetPages
  fleetSummaries: FleetSummaries
  fleetTagCounts: FleetTagCounts
}

/** What dashboards read of the fleet: answers whose size does not depend on that of the fleet. */
export function mountFleet(router: Router, { fleetPages, fleetSummaries, fleetTagCounts }: FleetRoutes): void {
  router.handle('getFleet', async ({ query, principal, request }, reply) => {
    const limit = pageLimit(query.limit)
    const page = await fleetPages.read(query, { team: principal.team, limit, caller: principal.keyId })
    return compressed(page, request, reply)
  })

  router.handle('getFleetSummary', async ({ query: { known, ...filter }, principal, request }, reply) =>
    compressed(
      await fleetSummaries.read(filter, { team: principal.team, caller: principal.keyId, known }),
      request,
      reply,
    ),
  )

  router.handle('getFleetGroups', async ({ query: { by, ...filter }, principal, request }, reply) =>
    compressed(
      await fleetTagCounts.groups(by, filter, { team: principal.team, caller: principal.keyId }),
      request,
      reply,
    ),
  )

  router.handle('getFleetTags', async ({ principal, request }, reply) =>
    compressed(await fleetTagCounts.tags({ team: principal.team, caller: principal.keyId }), request, reply),
  )
}
