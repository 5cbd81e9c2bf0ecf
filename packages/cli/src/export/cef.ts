import { type AuditEntry, type ControlChange, type EventRow, isBlocked, toolOf } from '@wardline/contract'
import { type CefEntry, type CefPair, cefAddress, cefCustom, cefLine, safeJson } from '@wardline/text'

const lineOf = (entry: CefEntry): string => `${cefLine(entry)}\n`

export function toCef(row: EventRow, version: string): string {
  const pairs: CefPair[] = [
    ['rt', Date.parse(row.created_at)],
    ['externalId', row.id],
    ['cat', row.severity],
    ['msg', row.description],
    ['act', isBlocked(row.event_type, row.metadata) ? 'blocked' : null],
    ...cefAddress(row.observed_ip_address),
    ...cefCustom(1, 'instance', row.instance_id),
    ...cefCustom(2, 'session', row.session_id),
    ...cefCustom(3, 'source', row.source),
    ...cefCustom(4, 'tool', toolOf(row.metadata)),
    ...cefCustom(5, 'metadata', row.metadata === null ? null : safeJson(row.metadata)),
    ...cefCustom(6, 'by_service', String(row.by_service)),
    ['cn1Label', 'seq'],
    ['cn1', row.seq],
  ]
  const name = row.event_type.replaceAll('_', ' ')
  return lineOf({ version, type: row.event_type, name, severity: row.severity, pairs })
}

/** Fields that control and audit entries share. */
const actPairs = ({ seq, at, actor, actor_name, reason }: ControlChange | AuditEntry): CefPair[] => [
  ['rt', Date.parse(at)],
  ['externalId', `audit-${seq}`],
  ['msg', reason],
  ['suid', actor],
  ['suser', actor_name],
  ['cn1Label', 'audit_seq'],
  ['cn1', seq],
]

// Event types contain no dot, so no event can imitate this signature id.
export function controlToCef(change: ControlChange, version: string): string {
  const { action, instance_id } = change
  const pairs: CefPair[] = [
    ...actPairs(change),
    ['cat', 'control'],
    ['act', action],
    ...cefCustom(1, 'instance', instance_id),
    ['cn2Label', 'control_version'],
    ['cn2', change.version],
  ]
  return lineOf({ version, type: `control.${action}`, name: `instance ${action}`, severity: 'warning', pairs })
}

export function auditToCef(entry: AuditEntry, version: string): string {
  const { action, target, scope, before, after, ip, request_id, hash } = entry
  const pairs: CefPair[] = [
    ...actPairs(entry),
    ['cat', 'audit'],
    ['act', action],
    ...cefAddress(ip),
    ...cefCustom(1, 'target', target),
    ...cefCustom(2, 'scope', scope),
    ...cefCustom(3, 'before', safeJson(before)),
    ...cefCustom(4, 'after', safeJson(after)),
    ...cefCustom(5, 'request', request_id),
    ...cefCustom(6, 'hash', hash),
  ]
  return lineOf({ version, type: `audit.${action}`, name: action, severity: 'info', pairs })
}
