import type { Configured } from '@wardline/contract'
import type { Deps } from '../../deps.ts'
import type { Readiness } from '../../http/readiness.ts'
import type { Router } from '../../http/route.ts'
import { version } from '../../version.ts'
import { listChannels } from '../alerts/delivery/channel-health.ts'
import type { RoutingTable } from '../alerts/routing/routing-table.ts'
import { keptEvents } from '../events/kept.ts'
import { fleetCount } from '../instances/fleet-count.ts'
import type { RoleTable } from '../people/role-mappings.ts'
import type { JobRuns } from './job-runs.ts'
import { readWarnings } from './warnings.ts'

interface SystemParts {
  jobRuns: JobRuns
  routingTable: RoutingTable
  roleTable: RoleTable
  readiness: Readiness
  configuration: readonly Configured[]
}

const mebibyte = 1024 * 1024

export function mountSystem(
  router: Router,
  deps: Deps,
  { jobRuns, routingTable, roleTable, readiness, configuration }: SystemParts,
): void {
  const { config, database, clock } = deps
  const { db } = database
  async function readStorage() {
    const [used, kept, fleet] = await Promise.all([database.usedBytes(), keptEvents(db), fleetCount(db, clock.now())])
    return {
      used_bytes: used,
      max_bytes: config.maxDbMb === undefined ? null : config.maxDbMb * mebibyte,
      retention_days: config.retentionDays,
      events_at_most: kept.count,
      oldest_event_at: kept.oldestAt,
      instances: fleet.total,
      max_instances: config.maxInstances,
    }
  }

  router.handle('getSystem', async () => {
    const [health, channels, storage, warnings] = await Promise.all([
      readiness(),
      listChannels(db, routingTable, clock.now()),
      readStorage(),
      readWarnings(deps, { roleTable }),
    ])
    return { version, health, warnings, jobs: jobRuns.list(), channels, storage, configuration: [...configuration] }
  })
}
