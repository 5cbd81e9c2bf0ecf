import { type EventRow, eventTypes, type Severity } from '@wardline/contract'
import { isBlocked, toolOf } from './event-facts.ts'
import { plainJson } from './terminal-text.ts'

// Elastic Common Schema (https://www.elastic.co/docs/reference/ecs). 9.1.0 is the first with `gen_ai`, where an AI agent
// belongs: `agent` of ECS is what ships the logs. The severities are those that Elastic's own alerts have.
const schemaVersion = '9.1.0'
const severities: Record<Severity, number> = { info: 21, warning: 47, critical: 73, breach: 99 }

/** Values out of the lists that ECS allows; an event that is none of them has no category. */
function categoryOf(row: EventRow): { category?: string[]; type: string[] } {
  if (isBlocked(row)) return { category: ['intrusion_detection'], type: ['denied'] }
  if (row.event_type === eventTypes.toolCall) return { category: ['api'], type: ['access'] }
  if (row.severity !== 'info') return { category: ['intrusion_detection'], type: ['info'] }
  return { type: ['info'] }
}

function agentOf(row: EventRow) {
  const tool = toolOf(row)
  const genAi = {
    ...(row.instance_id === null ? {} : { agent: { id: row.instance_id } }),
    ...(tool === undefined ? {} : { tool: { name: tool } }),
  }
  return Object.keys(genAi).length > 0 ? { gen_ai: genAi } : {}
}

export function toEcs(row: EventRow, version: string): string {
  const { ip_address, metadata, session_id } = row
  return `${plainJson({
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
    observer: { vendor: 'Wardline', product: 'Wardline', type: 'agent-monitor', version },
    ...(row.severity === 'info' ? {} : { rule: { name: row.event_type } }),
    ...agentOf(row),
    ...(ip_address === null ? {} : { source: { ip: ip_address }, related: { ip: [ip_address] } }),
    wardline: {
      severity: row.severity,
      ...(session_id === null ? {} : { session_id }),
      // As text: an agent chooses its metadata, and must not choose the mapping of an index by that.
      ...(metadata === null ? {} : { metadata: plainJson(metadata) }),
    },
  })}\n`
}
