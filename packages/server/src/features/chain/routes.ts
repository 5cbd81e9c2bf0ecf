import { AppError } from '../../errors.ts'
import { requestActor } from '../../http/actor.ts'
import type { Router } from '../../http/route.ts'
import type { Chain } from './chain.ts'

export function mountChain(router: Router, { chain }: { chain: Chain | undefined }): void {
  function need() {
    if (chain?.drops) return chain.drops
    throw new AppError(
      'not_found',
      'No wallet is configured: set TRUST_RPC_URL, and TRUST_WALLET_KEY_FILE or TRUST_SIGNER_URL.',
    )
  }

  router.handle('planChainDrop', ({ params }) => need().plan(params.id))

  router.handle('dropChainTransaction', async ({ params, body, request }) => {
    await need().drop(params.id, body.action, requestActor(request))
    return { ok: true, id: params.id, action: body.action }
  })
}
