import type { FleetStatus } from '@wardline/contract'
import type { Db } from '../../db/database.ts'
import type { Deps } from '../../deps.ts'
import { compressed } from '../../http/compressed.ts'
import type { Router } from '../../http/route.ts'
import { SharedRun } from '../../shared-run.ts'
import { readTeamCounts } from '../events/aggregates.ts'
import { severityCounts, toolCounts } from '../events/counts.ts'
import { type FleetList, type FleetLists, readTeamList } from '../instances/fleet-list.ts'
import { readProblemList } from './problems.ts'

/** Many requests for the status must not occupy the process. */
const restMs = 50
/** Problems of a flood are counted from many more rows. */
const problemsRestMs = 1_000

const nothingListed: FleetList = { instances: [], omitted: 0 }

function statusText({ instances, omitted }: FleetList, counted: Pick<FleetStatus, 'stats' | 'toolCalls'>): string {
  const rest = JSON.stringify({ ...(omitted > 0 ? { instances_omitted: omitted } : {}), ...counted })
  return `{"instances":[${instances.join(',')}],${rest.slice(1)}`
}

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
  const readWhole = async () => {
    const now = clock.now()
    return statusText(...(await Promise.all([fleetLists.read(now), counts(now)])))
  }
  const readCounts = async () => statusText(nothingListed, await counts(clock.now()))
  const whole = new SharedRun(readWhole, { restMs })
  const countsAlone = new SharedRun(readCounts, { restMs })
  const problems = new SharedRun(() => database.scan('problems', (db) => readProblemList(db, clock.now(), undefined)), {
    restMs: problemsRestMs,
  })
  router.handle('listProblems', async ({ principal: { keyId, team }, request }, reply) => {
    const reading = team ? database.scan(keyId, (db) => readProblemList(db, clock.now(), team)) : problems.get()
    // It may name thousands of agents.
    return compressed(await reading, request, reply)
  })
  const readOfTeam = async (db: Db, team: readonly string[], isListed: boolean) => {
    const now = clock.now()
    return statusText(isListed ? await readTeamList(db, team, now) : nothingListed, await readTeamCounts(db, team, now))
  }
  router.handle('getStatus', async ({ query, principal: { keyId, team } }, reply) => {
    reply.type('application/json; charset=utf-8')
    if (team) return (await database.scan(keyId, (db) => readOfTeam(db, team, query.omit === undefined))) as never
    return (await (query.omit ? countsAlone : whole).get()) as never
  })
}
