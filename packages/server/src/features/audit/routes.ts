import type { ControlChangeQuery } from '@wardline/contract'
import type { Deps } from '../../deps.ts'
import { cursorBounds, pageLimit, timeBounds } from '../../http/page.ts'
import type { Router } from '../../http/route.ts'
import type { KeyNames } from './audit.ts'
import { listAudit } from './audit-list.ts'
import type { ChainWatch } from './chain-watch.ts'
import { readControlChanges } from './control-changes.ts'

/** Returns the cursor of the next page; null if this page is not full. */
const nextOf = (rows: readonly { seq: number }[], limit: number) =>
  rows.length < limit ? null : String(rows.at(-1)!.seq)

const boundsOf = (query: Pick<ControlChangeQuery, 'after' | 'before' | 'from' | 'to'>) => ({
  ...cursorBounds(query),
  ...timeBounds(query),
})

interface AuditParts {
  keyNames: KeyNames
  chainWatch: ChainWatch
}

export function mountAudit(router: Router, { database }: Deps, { keyNames: keys, chainWatch }: AuditParts): void {
  router.handle('getAuditChain', () => chainWatch.view())

  router.handle('listAudit', async ({ query, principal }) => {
    const limit = pageLimit(query.limit)
    const { actor, action, target, order = 'oldest' } = query
    const filter = {
      ...boundsOf(query),
      ...(actor === undefined ? {} : { actor }),
      ...(action === undefined ? {} : { action }),
      ...(target === undefined ? {} : { target }),
    }
    const entries = await database.scan(principal.keyId, (db) => listAudit(db, keys, filter, order, limit))
    return { entries, next: nextOf(entries, limit) }
  })

  router.handle('listControlChanges', async ({ query, principal }) => {
    const limit = pageLimit(query.limit)
    const { instance_id: target } = query
    const filter = { ...boundsOf(query), ...(target === undefined ? {} : { target }), team: principal.team }
    const changes = await database.scan(principal.keyId, (db) => readControlChanges(db, keys, filter, 'newest', limit))
    return { changes, next: nextOf(changes, limit) }
  })
}
