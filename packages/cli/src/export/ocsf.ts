import {
  type AuditEntry,
  type ControlChange,
  type EventRow,
  otherFields,
  type Severity,
  titleOf,
  toolOf,
} from '@wardline/contract'
import { safeJson } from '@wardline/text'

// Open Cybersecurity Schema Framework 1.9.0 (https://schema.ocsf.io/1.9.0/classes/detection_finding): one Detection
// Finding per event. The agent is in `evidences[].ai_agent`, which 1.9.0 added for findings; the profile `ai_operation`
// is for activity classes and does not apply to this one.
const schemaVersion = '1.9.0'
const classUid = 2004
const activityId = 1

/** OCSF uses Fatal for events that are too late to prevent. */
const severities: Record<Severity, { severity_id: number; severity: string }> = {
  info: { severity_id: 1, severity: 'Informational' },
  warning: { severity_id: 3, severity: 'Medium' },
  critical: { severity_id: 5, severity: 'Critical' },
  breach: { severity_id: 6, severity: 'Fatal' },
}

function evidenceOf(row: EventRow) {
  const { instance_id, session_id, observed_ip_address: ip } = row
  const tool = toolOf(row.metadata)
  const evidence = {
    ...(instance_id === null
      ? {}
      : { ai_agent: { uid: instance_id, ...(session_id === null ? {} : { instance_uid: session_id }) } }),
    ...(tool === null ? {} : { api: { operation: tool } }),
    ...(ip === null ? {} : { src_endpoint: { ip } }),
  }
  return Object.keys(evidence).length > 0 ? { evidences: [evidence] } : {}
}

/** Fields without a standard attribute: the author, metadata, a reported address, a session without an agent, and others. */
function unmappedOf(row: EventRow) {
  const { by_service, metadata, instance_id, session_id, ip_address, observed_ip_address } = row
  return {
    by_service,
    ...(ip_address === null || ip_address === observed_ip_address ? {} : { reported_ip_address: ip_address }),
    ...(metadata === null ? {} : { metadata }),
    ...(session_id === null || instance_id !== null ? {} : { session_id }),
    ...otherFields(row),
  }
}

const productOf = (version: string) => ({ name: 'Wardline', vendor_name: 'Wardline', version })

export function toOcsf(row: EventRow, version: string): string {
  const time = Date.parse(row.created_at)
  return `${safeJson({
    activity_id: activityId,
    activity_name: 'Create',
    category_uid: 2,
    category_name: 'Findings',
    class_uid: classUid,
    class_name: 'Detection Finding',
    type_uid: classUid * 100 + activityId,
    type_name: 'Detection Finding: Create',
    time,
    ...severities[row.severity],
    status_id: 1,
    status: 'New',
    is_alert: row.severity !== 'info',
    message: row.description,
    metadata: {
      version: schemaVersion,
      product: productOf(version),
      uid: row.id,
      sequence: row.seq,
      event_code: row.event_type,
      log_provider: row.source,
      original_time: row.created_at,
    },
    finding_info: {
      uid: row.id,
      title: titleOf(row),
      desc: row.description,
      types: [row.event_type],
      created_time: time,
    },
    ...evidenceOf(row),
    unmapped: unmappedOf(row),
  })}\n`
}

// Actions of people and of the service on agents, keys and decoys are Entity Management
// (https://schema.ocsf.io/1.9.0/classes/entity_management), in the category Identity & Access Management.
const managementUid = 3004
const activities: Record<string, [id: number, name: string]> = {
  create: [1, 'Create'],
  change: [3, 'Update'],
  quotas: [3, 'Update'],
  delete: [4, 'Delete'],
  suspend: [12, 'Suspend'],
  resume: [13, 'Resume'],
}

interface Managed {
  /** Type of the entity and the action on it, such as instance.suspend. */
  action: string
  target: string | null
  severity: Severity
}

function managementOf(entry: ControlChange | AuditEntry, { action, target, severity }: Managed, version: string) {
  const { seq, at, actor, actor_name, reason } = entry
  const [type = '', done = ''] = action.split('.')
  const [id, name] = activities[done] ?? [99, done]
  return {
    activity_id: id,
    activity_name: name,
    category_uid: 3,
    category_name: 'Identity & Access Management',
    class_uid: managementUid,
    class_name: 'Entity Management',
    type_uid: managementUid * 100 + id,
    type_name: `Entity Management: ${name}`,
    time: Date.parse(at),
    ...severities[severity],
    status_id: 1,
    status: 'Success',
    message: target === null ? action : `${action} ${target}`,
    ...(reason === null ? {} : { comment: reason }),
    actor: { user: { uid: actor, ...(actor_name === null ? {} : { name: actor_name }) } },
    entity: { type, type_id: 99, ...(target === null ? { name: type } : { uid: target }) },
    metadata: {
      version: schemaVersion,
      product: productOf(version),
      uid: `audit-${seq}`,
      sequence: seq,
      event_code: action,
      original_time: at,
    },
  }
}

export function controlToOcsf(change: ControlChange, version: string): string {
  const { action, instance_id: target } = change
  const managed = { action: `instance.${action}`, target, severity: 'warning' as const }
  return `${safeJson({
    ...managementOf(change, managed, version),
    unmapped: { kind: 'control', control_version: change.version },
  })}\n`
}

export function auditToOcsf(entry: AuditEntry, version: string): string {
  const { action, target, scope, before, after, ip, request_id, prev_hash, hash } = entry
  return `${safeJson({
    ...managementOf(entry, { action, target, severity: 'info' }, version),
    ...(ip === null ? {} : { src_endpoint: { ip } }),
    unmapped: { kind: 'audit', scope, before, after, request_id, prev_hash, hash },
  })}\n`
}
