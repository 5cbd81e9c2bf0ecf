import {
  type AuditEntry,
  type ControlChange,
  type EventRow,
  eventTypes,
  isBlocked,
  otherFields,
  type Severity,
  toolOf,
} from '@wardline/contract'
import { safeJson } from '@wardline/text'

// Elastic Common Schema (https://www.elastic.co/docs/reference/ecs). 9.1.0 is the first version with `gen_ai` for AI
// agents; `agent` is the log shipper in ECS. The severities are those of Elastic's own alerts.
const schemaVersion = '9.1.0'
const severities: Record<Severity, number> = { info: 21, warning: 47, critical: 73, breach: 99 }

/** Returns allowed values of ECS. An event for which ECS has no category gets none. */
function categoryOf(row: EventRow): { category?: string[]; type: string[] } {
  if (isBlocked(row.event_type, row.metadata)) return { category: ['intrusion_detection'], type: ['denied'] }
  if (row.event_type === eventTypes.toolCall) return { category: ['api'], type: ['access'] }
  if (row.severity !== 'info') return { category: ['intrusion_detection'], type: ['info'] }
  return { type: ['info'] }
}

function agentOf(row: EventRow) {
  const tool = toolOf(row.metadata)
  const genAi = {
    ...(row.instance_id === null ? {} : { agent: { id: row.instance_id } }),
    ...(tool === null ? {} : { tool: { name: tool } }),
  }
  return Object.keys(genAi).length > 0 ? { gen_ai: genAi } : {}
}

const observerOf = (version: string) => ({ vendor: 'Wardline', product: 'Wardline', type: 'agent-monitor', version })

export function toEcs(row: EventRow, version: string): string {
  const { ip_address: reported, observed_ip_address: observed, metadata, session_id } = row
  const addresses = [...new Set([observed, reported].filter((address) => address !== null))]
  return `${safeJson({
    '@timestamp': row.created_at,
    ecs: { version: schemaVersion },
    message: row.description,
    event: {
      id: row.id,
      sequence: row.seq,
      kind: row.severity === 'info' ? 'event' : 'alert',
      ...categoryOf(row),
      action: row.event_type,
      severity: severities[row.severity],
      module: 'wardline',
      dataset: 'wardline.events',
      provider: row.source,
    },
    observer: observerOf(version),
    ...(row.severity === 'info' ? {} : { rule: { name: row.event_type } }),
    ...agentOf(row),
    ...(observed === null ? {} : { source: { ip: observed } }),
    ...(addresses.length === 0 ? {} : { related: { ip: addresses } }),
    wardline: {
      severity: row.severity,
      by_service: row.by_service,
      ...(session_id === null ? {} : { session_id }),
      // As text, because fields chosen by an agent must not change the mapping of the index.
      ...(metadata === null ? {} : { metadata: safeJson(metadata) }),
      ...otherFields(row),
    },
  })}\n`
}

/** Fields that control and audit entries share. */
function actOf(entry: ControlChange | AuditEntry, version: string) {
  const { seq, at, actor, actor_name, reason } = entry
  return {
    '@timestamp': at,
    ecs: { version: schemaVersion },
    event: {
      id: `audit-${seq}`,
      sequence: seq,
      kind: 'event',
      category: ['configuration'],
      type: ['change'],
      module: 'wardline',
      ...(reason === null ? {} : { reason }),
    },
    observer: observerOf(version),
    user: { id: actor, ...(actor_name === null ? {} : { name: actor_name }) },
  }
}

export function controlToEcs(change: ControlChange, version: string): string {
  const { event, ...common } = actOf(change, version)
  const { action, instance_id } = change
  return `${safeJson({
    ...common,
    message: `${action} ${instance_id}`,
    event: { ...event, action: `instance.${action}`, severity: severities.warning, dataset: 'wardline.control' },
    gen_ai: { agent: { id: instance_id } },
    wardline: { control: { action, version: change.version } },
  })}\n`
}

export function auditToEcs(entry: AuditEntry, version: string): string {
  const { event, ...common } = actOf(entry, version)
  const { action, target, scope, before, after, ip, request_id, prev_hash, hash } = entry
  return `${safeJson({
    ...common,
    message: target === null ? action : `${action} ${target}`,
    event: { ...event, action, severity: severities.info, dataset: 'wardline.audit' },
    ...(ip === null ? {} : { source: { ip }, related: { ip: [ip] } }),
    wardline: {
      // As text, because states differ between actions and an index has one mapping.
      audit: { target, scope, before: safeJson(before), after: safeJson(after), request_id, prev_hash, hash },
    },
  })}\n`
}
