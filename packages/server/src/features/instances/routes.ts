import { decoysHeader, type Lever, limits, type Mismatch, policyHeader, toolServerLimits } from '@wardline/contract'
import type { Point } from '../../config/enforcement-points.ts'
import type { Deps } from '../../deps.ts'
import { requestActor } from '../../http/actor.ts'
import { assertMayActFor, type Principal } from '../../http/auth.ts'
import { pageLimit } from '../../http/page.ts'
import type { Router } from '../../http/route.ts'
import { answerSupervisor } from '../../http/supervisor.ts'
import type { ProtectionAlerts } from '../audit/protection.ts'
import { type ConfigParts, createReportPace, reportConfig, viewConfig } from './agent-configs.ts'
import { deleteInstance } from './deletion.ts'
import type { FleetTagCounts } from './fleet-groups.ts'
import type { FleetSummaries } from './fleet-summary.ts'
import { viewHistory } from './history.ts'
import { type Heartbeats, listInstances, type SuspensionStates, viewInstance } from './instances.ts'
import { readNote, setNote } from './notes.ts'
import { assertOtherParent } from './parents.ts'
import { setTags } from './tags.ts'
import { listToolServers } from './tool-servers.ts'

const ok = { ok: true } as const

interface InstanceRoutes extends ConfigParts {
  protectionAlerts: ProtectionAlerts
  heartbeats: Heartbeats
  fleetSummaries: FleetSummaries
  fleetTagCounts: FleetTagCounts
  policySets: { readonly version: number; refresh(): Promise<void> }
  /** Whether any decoy can be triggered by this caller. */
  reaches(principal: Principal): boolean
  /** Cache of control states for polls. */
  controlStates: { forget(instanceId: string): void }
  suspensionStates: SuspensionStates
  enforcement: { points: readonly Point[] }
  /** Reads what a suspension of the agent reaches now. */
  levers: { read(instanceId: string): Promise<Lever[]> }
  /** Reads the calls that only one witness of the agent reports. */
  readMismatches(instanceId: string): Promise<Mismatch[]>
}

export function mountInstances(router: Router, deps: Deps, parts: InstanceRoutes): void {
  const { database, clock } = deps
  const { db } = database
  const { heartbeats, fleetSummaries, fleetTagCounts, reaches, controlStates, suspensionStates, enforcement } = parts
  const { levers, readMismatches, protectionAlerts, policySets } = parts

  const assertPace = createReportPace(deps)

  router.direct('sendHeartbeat', async ({ body, principal, address, reply }) => {
    assertMayActFor(principal, body.instance_id)
    assertOtherParent(body)
    reply.header(decoysHeader, reaches(principal) ? 'some' : 'none')
    reply.header(policyHeader, String(policySets.version))
    answerSupervisor(reply, body.supervisor, principal)
    await heartbeats.beat(body, principal, address)
    return ok
  })

  router.handle('listInstances', ({ query, principal }) => {
    const limit = pageLimit(query.limit, query.include ? limits.historyPage : limits.pageSize)
    // Searching for a rare status may read all instances.
    const reading = { limit, team: principal.team, now: clock.now(), suspensionStates, points: enforcement.points }
    return database.scan(principal.keyId, (scanned) => listInstances(scanned, query, reading))
  })

  router.handle('listToolServers', ({ query, principal }) => {
    const limit = pageLimit(query.limit, toolServerLimits.page)
    return listToolServers(database, principal, { after: query.after ?? '', limit })
  })

  router.handle('getInstance', async ({ params: { instanceId }, principal: { team } }) => {
    const detail = await viewInstance(db, { id: instanceId, team }, clock.now(), suspensionStates)
    return {
      ...detail,
      mismatches: await readMismatches(instanceId),
      levers: await levers.read(instanceId),
      note: await readNote(db, instanceId),
    }
  })

  router.handle('reportConfig', async ({ params: { instanceId }, body, principal }) => {
    assertMayActFor(principal, instanceId)
    assertPace(instanceId)
    const { keyId, supervises } = principal
    return { changes: await reportConfig(deps, parts, { instanceId, keyId, supervises, body }) }
  })

  router.handle('getConfig', ({ params }) => viewConfig(deps, params.instanceId))

  router.handle('getInstanceHistory', ({ params }) => viewHistory(db, params.instanceId, clock.now()))

  router.handle('setInstanceTags', async ({ params, body, principal, request }) => {
    const by = { principal, actor: requestActor(request) }
    const tags = await setTags(database, params.instanceId, body, by, clock.now())
    fleetTagCounts.forget()
    fleetSummaries.forget()
    await policySets.refresh()
    return { ok: true, id: params.instanceId, tags }
  })

  router.handle('setInstanceNote', async ({ params: { instanceId }, body, principal, request }) => {
    const by = { author: principal.registers.owner, actor: requestActor(request) }
    await setNote(database, instanceId, body.text, by, clock.now())
    return { ok: true, id: instanceId, note: await readNote(db, instanceId) }
  })

  router.handle('deleteInstance', async ({ params, request }) => {
    await deleteInstance(database, protectionAlerts, params.instanceId, requestActor(request), clock.now())
    controlStates.forget(params.instanceId)
    await policySets.refresh()
    fleetTagCounts.forget()
    fleetSummaries.forget()
    return { ok: true, id: params.instanceId }
  })
}
