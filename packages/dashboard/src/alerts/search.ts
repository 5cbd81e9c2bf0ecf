import type { Severity } from '@wardline/contract'

export const alertViews = ['channels', 'routing'] as const
/** States that the queue can show besides open alerts. */
export const shownStatuses = ['acknowledged', 'resolved', 'all'] as const

/** State of the screen in the address. */
export interface AlertSearch {
  /** Default: the queue. */
  view?: (typeof alertViews)[number]
  /** Default: open. */
  status?: (typeof shownStatuses)[number]
  /** Default: warning and above. */
  severity?: Severity
  instance_id?: string
  event_type?: string
  assignee?: string
  /** The alert in the drawer. */
  alert?: string
  /** The channel in the drawer. */
  channel?: string
}
