import { uuidV7 } from '../../ids.ts'
import { highest } from './alert-match.ts'
import { held } from './grouping.ts'
import type { Message, Severity, ToldAlert } from './message.ts'
import { isClaimed } from './resolutions.ts'

/** More than ten lines nobody reads on a phone. */
export const shownAlerts = 10

const names: Record<Severity, string> = { info: 'Info', warning: 'Warning', critical: 'Critical', breach: 'Breach' }

const heldTitles: Record<string, (count: number) => string> = {
  [held.storm]: (count) => `${count} alerts came faster than this channel takes them`,
  [held.quiet]: (count) => `${count} alerts during quiet hours`,
  [held.late]: (count) => `${count} alerts from a time when this channel could not be told`,
}

const problemOf = (alert: ToldAlert): string => {
  const { event_type, instance_id } = alert
  const claim = isClaimed(alert) ? 'claimed by a caller: ' : ''
  return `${claim}${event_type}${instance_id === null ? '' : ` on ${instance_id}`}`
}

interface Parts {
  /** A new one unless alerts joined it already. */
  id?: string | null
  kind: Message['kind']
  now: number
  /** Name of the group; null for what belongs to none. */
  group: string | null
  /** Newest last; the last `shownAlerts` are kept. */
  alerts: readonly ToldAlert[]
  /** How many it tells of in all. */
  count: number
}

function titleOf({ kind, group, alerts, count }: Parts, severity: Severity): string {
  const newest = alerts.at(-1)
  if (kind === 'test') return 'Test message of Wardline'
  if (kind === 'check') return 'Daily check: alerts reach this channel'
  if (kind === 'digest') return heldTitles[group!]!(count)
  const problem = newest ? problemOf(newest) : group!
  if (kind === 'resolved') return `Over: ${problem}`
  const more = count > 1 ? ` (${count} alerts)` : ''
  return kind === 'reminder' ? `Nobody acknowledged: ${problem}${more}` : `${names[severity]}: ${problem}${more}`
}

/** A message as it is stored and sent. */
export function composeMessage(parts: Parts): Message {
  const { kind, now, group, alerts, count } = parts
  const severity = alerts.reduce<Severity>((worst, alert) => highest(worst, alert.severity), 'info')
  const shown = alerts.slice(-shownAlerts)
  return {
    id: parts.id ?? uuidV7(now),
    kind,
    created_at: now,
    severity,
    title: titleOf(parts, severity).slice(0, 200),
    group: kind === 'digest' || group === null ? null : group.slice(0, 255),
    alerts: shown,
    more: Math.max(0, count - shown.length),
  }
}
