import type { Deps } from '../../deps.ts'
import { clientAddress, requestActor } from '../../http/actor.ts'
import type { Router } from '../../http/route.ts'
import type { DecoyChecks } from './check.ts'
import { createHoneypot, deleteHoneypot, listHoneypots, viewHoneypot } from './honeypots.ts'

export function mountHoneypots(router: Router, deps: Deps, checks: DecoyChecks): void {
  const { db } = deps.database

  router.handle('listHoneypots', async ({ query }) => ({ honeypots: await listHoneypots(db, query.instance_id) }))

  router.handle('getHoneypot', ({ params }) => viewHoneypot(db, params.id))

  router.handle('createHoneypot', async ({ body, request }) => {
    const created = await createHoneypot(deps, body, requestActor(request))
    await checks.refresh()
    return created
  })

  router.handle('deleteHoneypot', async ({ params, request }) => {
    await deleteHoneypot(deps, params.id, requestActor(request))
    await checks.refresh()
    return { ok: true, id: params.id }
  })

  router.handle('checkKey', async ({ body: { key, meta }, principal, request }) => {
    return { matched: await checks.checkKey(key, { meta, principal, address: clientAddress(request) }) }
  })

  router.handle('checkPath', async ({ body: { path, meta }, principal, request }) => {
    return { matched: await checks.checkPath(path, { meta, principal, address: clientAddress(request) }) }
  })
}
