import { limits } from '@wardline/contract'
import type { Deps } from '../../deps.ts'
import { requestActor } from '../../http/actor.ts'
import { assertMayActFor } from '../../http/auth.ts'
import { pageLimit } from '../../http/page.ts'
import type { Router } from '../../http/route.ts'
import { answerSupervisor } from '../../http/supervisor.ts'
import type { DrillAnswers } from './answers.ts'
import { listDrills, startDrill, viewDrill } from './drills.ts'
import type { DrillSender } from './sender.ts'

interface DrillRoutes {
  drillSender: Pick<DrillSender, 'ask'>
  drillAnswers: Pick<DrillAnswers, 'answer'>
}

export function mountDrills(router: Router, deps: Deps, { drillSender, drillAnswers }: DrillRoutes): void {
  router.handle('startDrill', async ({ body, principal, request }) => {
    const drill = await startDrill(deps, body.selector, { team: principal.team, actor: requestActor(request) })
    // The periodic job asks agents of other processes, and repeats failed calls, within half a second.
    drillSender.ask().catch((fault) => deps.log.warn({ err: fault }, 'a drill waits for the next turn'))
    return drill
  })
  router.handle('listDrills', ({ query, principal }) =>
    listDrills(deps, pageLimit(query.limit ?? '20', limits.drills), principal.team),
  )
  router.handle('getDrill', ({ params, principal }) => viewDrill(deps, params.id, principal.team))
  router.handle('answerDrill', async ({ params, body, principal }, reply) => {
    assertMayActFor(principal, params.instanceId)
    answerSupervisor(reply, body.supervisor, principal)
    await drillAnswers.answer({
      instanceId: params.instanceId,
      nonce: body.nonce,
      keyId: principal.keyId,
      supervisor: principal.supervises ? body.supervisor : undefined,
    })
    return { ok: true }
  })
}
