import { instant, number, type SearchOf, searchParams, text } from '../data/search-params.ts'

export const auditSearch = searchParams({
  actor: text,
  action: text,
  target: text,
  from: instant,
  to: instant,
  /** The entry in the drawer. */
  open: number,
})
export type AuditSearch = SearchOf<typeof auditSearch>
