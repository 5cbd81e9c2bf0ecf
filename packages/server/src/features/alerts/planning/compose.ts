import { alertTypes, type Severity, titleOf } from '@wardline/contract'
import { uuidV7 } from '../../../ids.ts'
import type { DeliveredAlert, Message, Personal } from '../channels/message.ts'
import { groupNameOf, highest } from '../outbox/alert.ts'
import { delayedNames } from './grouping.ts'

/** Alerts listed in a message: as many lines as a phone shows. */
export const shownAlerts = 10

const names: Record<Severity, string> = { info: 'Info', warning: 'Warning', critical: 'Critical', breach: 'Breach' }

const alertsOf = (count: number) => (count === 1 ? '1 alert' : `${count} alerts`)
const storm = (count: number) => `${alertsOf(count)} exceeded the rate of this channel`
const quiet = (count: number) => `${alertsOf(count)} during quiet hours`
const late = (count: number) => `${alertsOf(count)} from a time when nothing reached this channel`

const delayedTitles: Record<string, (count: number) => string> = {
  [delayedNames.reported.storm]: storm,
  [delayedNames.reported.quiet]: quiet,
  [delayedNames.reported.late]: late,
  [delayedNames.own.storm]: (count) => `From Wardline itself: ${storm(count)}`,
  [delayedNames.own.quiet]: (count) => `From Wardline itself: ${quiet(count)}`,
  [delayedNames.own.late]: (count) => `From Wardline itself: ${late(count)}`,
}

interface Parts {
  /** Id of a message that alerts joined already; default: a new one. */
  id?: string | null
  kind: Exclude<Message['kind'], 'test' | 'check'>
  now: number
  /** Name of the group. */
  group: string
  /** Newest last; the last `shownAlerts` are kept. */
  alerts: readonly DeliveredAlert[]
  /** Total number of alerts. */
  count: number
}

/** Types of the groups whose name does not begin with one. */
const typesOfGroups: Record<string, string> = {
  kill: alertTypes.instanceSuspended,
  containment: alertTypes.containmentStarted,
  '~more': alertTypes.alertsSummarized,
}

/** The problem of a group none of whose alerts is listed, such as one that a person resolved. */
function problemOf(group: string) {
  const [type = '', instance_id = null] = group.replace(/^reported /, '').split(' ')
  const by_service = !group.startsWith('reported ') || type === '~more'
  return { event_type: typesOfGroups[type] ?? type, instance_id, by_service, source: instance_id ?? '' }
}

function messageTitle({ kind, group, alerts, count }: Parts, severity: Severity): string {
  const newest = alerts.at(-1)
  if (kind === 'digest') return delayedTitles[group]!(count)
  const problem = titleOf(newest ?? problemOf(group))
  if (kind === 'resolved' && newest?.event_type === alertTypes.instanceResumed) return problem
  if (kind === 'resolved')
    return `${newest?.event_type === alertTypes.killConfirmed ? 'Stopped' : 'Resolved'}: ${problem}`
  const more = count > 1 ? ` (${count} alerts)` : ''
  return kind === 'reminder' ? `Not acknowledged: ${problem}${more}` : `${names[severity]}: ${problem}${more}`
}

/** Composes a mail to a person. */
export function composePersonal({
  personal,
  ...parts
}: Pick<Parts, 'now' | 'alerts' | 'count'> & { personal: Personal }): Message {
  const { count, alerts } = parts
  const newest = alerts.at(-1)!
  const group = groupNameOf({ ...newest, by_service: newest.by_service ? 1 : 0 })
  const message = composeMessage({ ...parts, kind: 'alert', group })
  return count === 1
    ? { ...message, personal }
    : { ...message, personal, kind: 'digest', title: `${alertsOf(count)} for you`, group: null }
}

/** Composes the message to store and send. */
export function composeMessage(parts: Parts): Message {
  const { kind, now, group, alerts, count } = parts
  const severity = alerts.reduce<Severity>((worst, alert) => highest(worst, alert.severity), 'info')
  const shown = alerts.slice(-shownAlerts)
  return {
    id: parts.id ?? uuidV7(now),
    kind,
    created_at: now,
    severity,
    title: messageTitle(parts, severity).slice(0, 200),
    group: kind === 'digest' ? null : group.slice(0, 255),
    incident: null,
    alerts: shown,
    more: Math.max(0, count - shown.length),
  }
}
