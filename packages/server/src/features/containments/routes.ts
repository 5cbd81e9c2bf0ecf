import { limits } from '@wardline/contract'
import type { Deps } from '../../deps.ts'
import { requestActor } from '../../http/actor.ts'
import { assertFresh } from '../../http/fresh.ts'
import { pageLimit } from '../../http/page.ts'
import type { Router } from '../../http/route.ts'
import { workLane } from '../../work-turns.ts'
import type { Outbox } from '../alerts/outbox/outbox.ts'
import type { OpenStreams } from '../control/open-streams.ts'
import type { Enforcement } from '../enforcement/enforcement.ts'
import { settingsOf } from '../suspensions/states.ts'
import { createContainment, listContainments, planContainment, viewContainment } from './containments.ts'
import { listMembers, listRequests } from './second-operator.ts'
import type { ContainmentWork } from './work.ts'

const defaultPage = '20'

interface ContainmentParts {
  outbox: Outbox
  containmentWork: ContainmentWork
  controlStream: { has(instanceId: string): boolean }
  openStreams: Pick<OpenStreams, 'find'>
  enforcement: Pick<Enforcement, 'points'>
}

export function mountContainments(
  router: Router,
  deps: Deps,
  { outbox, containmentWork: work, controlStream, openStreams, enforcement }: ContainmentParts,
): void {
  const { database, clock, config } = deps
  const reading = { database, points: enforcement.points, acknowledgeMs: settingsOf(config).acknowledgeMs }
  const parts = { outbox, work, openStreams, ways: { hasStream: (id: string) => controlStream.has(id) } }

  router.handle('createContainment', async ({ body, principal, request }, reply) => {
    if (body.dry_run) {
      const plan = await planContainment(deps, parts, body, principal.team)
      reply.code(200).send(plan)
      return plan
    }
    if (body.action === 'resume') assertFresh(principal, clock.now())
    const asking = { principal, actor: requestActor(request) }
    const id = await workLane.aheadOfWork(() => createContainment(deps, parts, body, asking))
    return viewContainment(reading, id, { team: principal.team, now: clock.now() })
  })

  router.handle('listContainments', ({ query, principal }) => {
    const limit = pageLimit(query.limit ?? defaultPage, limits.listedMembers)
    const page = { before: query.before, limit, team: principal.team }
    return database.scan(principal.keyId, async (db) => ({
      ...(await listContainments(reading, db, page, clock.now())),
      resume_requests: await listRequests({ ...database, db }, principal, clock.now()),
    }))
  })

  router.handle('listRequestedMembers', ({ params, query, principal }) => {
    const limit = pageLimit(query.limit)
    const page = { after: query.after, limit, team: principal.team }
    return database.scan(principal.keyId, (db) => listMembers(db, params.id, page, clock.now()))
  })

  router.handle('getContainment', ({ params, principal }) =>
    viewContainment(reading, params.id, { team: principal.team, now: clock.now() }),
  )
}
