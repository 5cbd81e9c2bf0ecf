import type { Deps } from '../../deps.ts'
import { clientAddress, requestActor } from '../../http/actor.ts'
import { assertMayActFor } from '../../http/auth.ts'
import type { Router } from '../../http/route.ts'
import { getApproval, listAllowances, listApprovals, viewApproval } from './approvals.ts'
import { decideApproval, revokeAllowance } from './decisions.ts'
import { type PressParts, pressApproval } from './press.ts'
import { createRequestPace, type RequestParts, requestApproval } from './requests.ts'

export function mountApprovals(router: Router, deps: Deps, parts: RequestParts & PressParts): void {
  const assertPace = createRequestPace(deps)

  router.handle('requestApproval', ({ params, body, principal }) => {
    const { instanceId } = params
    assertMayActFor(principal, instanceId)
    assertPace(instanceId)
    return requestApproval(deps, parts, { instanceId, body, principal })
  })

  router.handle('listApprovals', ({ query, principal }) => listApprovals(deps, query, principal))

  router.handle('getApproval', ({ params, principal }) => getApproval(deps, params.id, principal))

  router.handle('decideApproval', async ({ params, body, principal, request }) => {
    const row = await decideApproval(deps, parts, params.id, body, { principal, actor: requestActor(request) })
    return viewApproval(deps, row, principal)
  })

  router.handle('pressApproval', async ({ params, body, request }) => {
    const pressing = { address: clientAddress(request), requestId: String(request.id) }
    await pressApproval(deps, parts, params.id, body, pressing)
    return { ok: true }
  })

  router.handle('listAllowances', async ({ principal }) => ({ allowances: await listAllowances(deps, principal) }))

  router.handle('revokeAllowance', async ({ params, principal, request }) => {
    await revokeAllowance(deps, params.id, { principal, actor: requestActor(request) })
    return { ok: true }
  })
}
