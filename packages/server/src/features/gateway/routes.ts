import type { Router } from '../../http/route.ts'
import type { ModelBudgets } from './budgets.ts'

export function mountGateway(router: Router, { modelBudgets }: { modelBudgets: ModelBudgets }): void {
  router.handle('listBudgets', async () => ({ budgets: await modelBudgets.list() }))
}
