import type { EventRow, Severity } from '@wardline/contract'
import { toolOf } from './event-facts.ts'
import { plainJson } from './terminal-text.ts'

// Open Cybersecurity Schema Framework 1.9.0 (https://schema.ocsf.io/1.9.0/classes/detection_finding): one Detection
// Finding an event. The agent stands in `evidences[].ai_agent`, which 1.9.0 added for findings: its profile
// `ai_operation` is for activity classes and does not apply to this one.
const schemaVersion = '1.9.0'
const classUid = 2004
const activityId = 1

/** Fatal is OCSF's word for what is too late to prevent. */
const severities: Record<Severity, { severity_id: number; severity: string }> = {
  info: { severity_id: 1, severity: 'Informational' },
  warning: { severity_id: 3, severity: 'Medium' },
  critical: { severity_id: 5, severity: 'Critical' },
  breach: { severity_id: 6, severity: 'Fatal' },
}

function evidenceOf(row: EventRow) {
  const { instance_id, session_id, ip_address } = row
  const tool = toolOf(row)
  const evidence = {
    ...(instance_id === null
      ? {}
      : { ai_agent: { uid: instance_id, ...(session_id === null ? {} : { instance_uid: session_id }) } }),
    ...(tool === undefined ? {} : { api: { operation: tool } }),
    ...(ip_address === null ? {} : { src_endpoint: { ip: ip_address } }),
  }
  return Object.keys(evidence).length > 0 ? { evidences: [evidence] } : {}
}

/** What has no place of its own: metadata always, and a session without an agent. */
function unmappedOf({ metadata, instance_id, session_id }: EventRow) {
  const unmapped = {
    ...(metadata === null ? {} : { metadata }),
    ...(session_id === null || instance_id !== null ? {} : { session_id }),
  }
  return Object.keys(unmapped).length > 0 ? { unmapped } : {}
}

export function toOcsf(row: EventRow, version: string): string {
  const time = Date.parse(row.created_at)
  return `${plainJson({
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
      product: { name: 'Wardline', vendor_name: 'Wardline', version },
      uid: row.id,
      sequence: row.seq,
      event_code: row.event_type,
      log_provider: row.source,
      original_time: row.created_at,
    },
    finding_info: {
      uid: row.id,
      title: row.event_type,
      desc: row.description,
      types: [row.event_type],
      created_time: time,
    },
    ...evidenceOf(row),
    ...unmappedOf(row),
  })}\n`
}
