import type { Deps } from '../../deps.ts'
import { requestActor } from '../../http/actor.ts'
import type { Router } from '../../http/route.ts'
import type { Ingest } from '../events/ingest.ts'
import { releaseBrake, viewBrake } from './brake.ts'

export function mountBrake(router: Router, deps: Deps, { ingest }: { ingest: Ingest }): void {
  router.handle('getBrake', ({ principal }) => viewBrake(deps, principal.team))

  router.handle('changeBrake', async ({ body, request }) => {
    await releaseBrake(deps, { ingest }, body.reason, requestActor(request))
    return viewBrake(deps, undefined)
  })
}
