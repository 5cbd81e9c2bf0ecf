import { styleText } from 'node:util'
import {
  type AuditEntry,
  type ControlChange,
  type InstanceStatus,
  lineTextOf,
  type Severity,
  type StreamedRow,
  titleOf,
} from '@wardline/contract'
import { sanitize } from '@wardline/text'

type Style = Parameters<typeof styleText>[0]

const severityStyles: Record<Severity, Style> = {
  info: 'dim',
  warning: 'yellow',
  critical: 'red',
  breach: ['bold', 'inverse', 'red'],
}
const statusStyles: Record<InstanceStatus, Style> = { active: 'green', suspended: 'red', offline: 'yellow' }

/** Styles text if standard output is a terminal and NO_COLOR is not set. The caller must sanitize the text. */
const styled = (style: Style | undefined, text: string): string =>
  style === undefined ? text : styleText(style, text, { stream: process.stdout })

export const severityText = (severity: Severity, width = 0): string =>
  styled(severityStyles[severity], sanitize(severity).padEnd(width))

export const statusText = (status: InstanceStatus, width = 0): string =>
  styled(statusStyles[status], sanitize(status).padEnd(width))

/** Formats an event as one line: time, severity, title, description. */
export function eventLine(row: StreamedRow): string {
  const { created_at, severity, instance_id, source, by_service } = row
  // The title of an event without an agent does not say where it comes from.
  const origin = instance_id === null && !by_service ? [source] : []
  const what = [titleOf(row), ...origin, lineTextOf(row)].map(sanitize).join('  ')
  return `${secondsOf(created_at)}  ${severityText(severity, 8)}  ${what}`
}

const secondsOf = (at: string): string => sanitize(at).replace(/\.\d+Z$/, 'Z')

/** Formats the actor, with the name of its key if known. */
const actorText = ({ actor, actor_name }: Pick<AuditEntry, 'actor' | 'actor_name'>): string =>
  actor_name === null ? sanitize(actor) : `${sanitize(actor_name)} (${sanitize(actor)})`

/** Formats a kill or a resume like an event. No severity is called `control`, so no event can imitate the line. */
export function controlLine(change: ControlChange): string {
  const { at, instance_id, action, reason } = change
  const style = action === 'suspend' ? 'red' : 'green'
  const mark = styleText(['bold', style], 'control'.padEnd(8), { stream: process.stdout })
  const done = action === 'suspend' ? 'suspended' : 'resumed'
  const why = reason === null ? '' : `: ${sanitize(reason)}`
  return `${secondsOf(at)}  ${mark}  ${sanitize(instance_id)}  ${done} by ${actorText(change)}${why}`
}

/** Formats an audit entry as one line: seq, time, actor, action, target, address, reason. */
export function auditLine(entry: AuditEntry): string {
  const { seq, at, action, target, ip, reason } = entry
  const what = [action, target, ip === null ? null : `from ${ip}`, reason]
  const texts = what.filter((text) => text !== null).map(sanitize)
  return [`#${seq}`, secondsOf(at), actorText(entry), ...texts].join('  ')
}
