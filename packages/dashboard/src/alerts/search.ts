import { severities } from '@wardline/contract'
import { oneOf, type SearchOf, searchParams, text } from '../data/search-params.ts'

const alertViews = ['channels', 'routing'] as const
/** States that the queue can show besides open alerts. */
const shownStatuses = ['acknowledged', 'resolved', 'all'] as const

export const alertSearch = searchParams({
  /** Default: the queue. */
  view: oneOf(alertViews),
  /** Default: open. */
  status: oneOf(shownStatuses),
  /** Default: warning and above. */
  severity: oneOf(severities),
  instance_id: text,
  event_type: text,
  /** An id, `me` or `none`. */
  assigned: text,
  /** The alert in the drawer. */
  alert: text,
  /** The channel in the drawer. */
  channel: text,
})
export type AlertSearch = SearchOf<typeof alertSearch>
