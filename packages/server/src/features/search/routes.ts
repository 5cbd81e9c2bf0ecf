import { defaultSearchHits, limits } from '@wardline/contract'
import { pageLimit } from '../../http/page.ts'
import type { Router } from '../../http/route.ts'
import { workLane } from '../../work-turns.ts'
import type { Search } from './search.ts'

/** Concurrent long searches per key: a person's next letter replaces the search before. */
const maxSearches = 8

export function mountSearch(router: Router, { search }: { search: Search }): void {
  router.handle('search', async ({ query: { q, limit }, principal, request }) => {
    const { keyId, scope, team } = principal
    const hits = limit === undefined ? defaultSearchHits : pageLimit(limit, limits.searchHits)
    const isAbandoned = () => request.raw.socket.destroyed
    const piece = workLane.open(`searches of ${keyId}`, { max: maxSearches, isAbandoned })
    try {
      const hasSettings = scope === 'operator' || scope === 'admin'
      return await search.find({ q, limit: hits, keyId, team, hasSettings, piece })
    } finally {
      piece.end()
    }
  })
}
