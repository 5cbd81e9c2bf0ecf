import type { Deps } from '../../deps.ts'
import { pageLimit } from '../../http/page.ts'
import type { Router } from '../../http/route.ts'
import { listAudit } from './audit.ts'

export function mountAudit(router: Router, { database }: Deps): void {
  router.handle('listAudit', async ({ query }) => {
    const limit = pageLimit(query.limit)
    const entries = await listAudit(database.db, Number(query.after ?? 0), limit)
    return { entries, next: entries.length < limit ? null : String(entries.at(-1)!.seq) }
  })
}
