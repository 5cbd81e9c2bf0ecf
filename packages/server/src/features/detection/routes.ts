import { requestActor } from '../../http/actor.ts'
import type { Router } from '../../http/route.ts'
import type { Baselines } from './baselines.ts'

const ok = { ok: true } as const

export function mountDetection(router: Router, { baselines }: { baselines: Baselines }): void {
  router.handle('listBaselines', ({ params }) => baselines.list(params.instanceId))

  router.handle('getBaseline', ({ params, principal }) =>
    baselines.view(params.instanceId, params.metric, principal.keyId),
  )

  router.handle('acceptBaseline', async ({ params, request }) => {
    await baselines.accept(params.instanceId, params.metric, requestActor(request))
    return ok
  })

  router.handle('resetBaseline', async ({ params, request }) => {
    await baselines.reset(params.instanceId, params.metric, requestActor(request))
    return ok
  })
}
