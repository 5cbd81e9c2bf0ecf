import type { EndpointName } from '@wardline/contract'
import type { Deps } from '../../deps.ts'
import { requestActor } from '../../http/actor.ts'
import type { Input, Router } from '../../http/route.ts'
import { createView, deleteView, listViews, replaceView } from './views.ts'

const ok = { ok: true } as const

export function mountViews(router: Router, { database, clock }: Pick<Deps, 'database' | 'clock'>): void {
  const changing = ({ principal, request }: Pick<Input<EndpointName>, 'principal' | 'request'>) => ({
    database,
    principal,
    actor: requestActor(request),
    now: clock.now(),
  })

  router.handle('listViews', async ({ principal }) => ({ views: await listViews(database.db, principal) }))

  router.handle('createView', async (input) => ({ ...ok, id: await createView(changing(input), input.body) }))

  router.handle('replaceView', async (input) => {
    await replaceView(changing(input), input.params.id, input.body)
    return ok
  })

  router.handle('deleteView', async (input) => {
    await deleteView(changing(input), input.params.id)
    return ok
  })
}
