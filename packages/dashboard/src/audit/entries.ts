import type { AuditQuery, ReplyOf } from '@wardline/contract'
import { call } from '../service/client.ts'

export type Entry = ReplyOf<'listAudit'>['entries'][number]
/** Filters in the address. */
export type AuditSearch = Pick<AuditQuery, 'actor' | 'action' | 'target' | 'from' | 'to'> & { open?: number }

/** Returns the name of the acting key, or the actor without a key. */
export const actorOf = ({ actor, actor_name }: Entry): string => actor_name ?? actor

/** Entries per request: about half a megabyte. */
const pageRows = '1000'

/** Yields all matching entries page by page, oldest first. */
export async function* auditPages(filter: AuditQuery, signal?: AbortSignal): AsyncGenerator<Entry[]> {
  let after: string | null = '0'
  while (after !== null) {
    const query: AuditQuery = { ...filter, order: 'oldest', after, limit: pageRows }
    const page: ReplyOf<'listAudit'> = await call('listAudit', { query, ...(signal ? { signal } : {}) })
    yield page.entries
    after = page.next
  }
}
