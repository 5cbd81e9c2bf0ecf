import type { Report, ToolCall } from './monitor.ts'
import { redacted, redactedText } from './redact.ts'
import type { NewEvent } from './wire.ts'

const severities = ['info', 'warning', 'critical', 'breach']
const paramsBytes = 4 * 1024
/** Limit for metadata; the service accepts 16 KiB. */
const metadataBytes = 12 * 1024
const maxDescriptionLength = 1000
const maxSessionIdLength = 200
const maxToolNameLength = 100

const isPlainObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Whether a description needs no redaction, which would remove the value of `token_count` as a token. */
function isNumbersOnly(description: string): boolean {
  try {
    return Object.values(JSON.parse(description)).every((value) => typeof value === 'number')
  } catch {
    return false
  }
}

/** Returns the event to send, or an error text if the report is invalid. */
export function eventOf(report: Report, instanceId: string): NewEvent | string {
  const { severity, eventType, description, sessionId, metadata } = Object(report) as Report
  if (!severities.includes(severity)) return `severity must be one of ${severities.join(', ')}`
  if (typeof eventType !== 'string' || !/^[a-z0-9_]{1,100}$/.test(eventType)) {
    return 'eventType must be snake_case, at most 100 characters'
  }
  if (typeof description !== 'string' || description === '') return 'description must be a string'
  if (sessionId !== undefined && typeof sessionId !== 'string') return 'sessionId must be a string'
  if (metadata !== undefined && !isPlainObject(metadata)) return 'metadata must be an object'
  const isMetrics = eventType === 'session_metrics' && isNumbersOnly(description)
  return {
    severity,
    source: instanceId,
    event_type: eventType,
    description: isMetrics ? description : redactedText(description, maxDescriptionLength),
    instance_id: instanceId,
    ...(sessionId ? { session_id: redactedText(sessionId, maxSessionIdLength) } : {}),
    ...(metadata === undefined ? {} : { metadata: redacted(metadata, metadataBytes) as Record<string, unknown> }),
  }
}

/** Returns the `tool_call` event, or an error text if the call is invalid. */
export function toolCallEvent(call: ToolCall, instanceId: string): NewEvent | string {
  const { toolName, durationMs, ok = true, sessionId, params } = Object(call) as ToolCall
  if (typeof toolName !== 'string' || toolName === '') return 'toolName must be a string'
  const shownName = redactedText(toolName, maxToolNameLength)
  const description = ok ? shownName : `${shownName} failed`
  const event = eventOf({ severity: 'info', eventType: 'tool_call', description, sessionId }, instanceId)
  if (typeof event === 'string') return event
  const metadata = {
    toolName: shownName,
    ...(Number.isFinite(durationMs) ? { durationMs: Math.round((durationMs as number) * 1000) / 1000 } : {}),
    ok,
    ...(params === undefined ? {} : { params: redacted(params, paramsBytes) }),
  }
  return { ...event, metadata }
}

/** Event for a contradiction: either this agent's saved state was changed, or the service runs on an older database. */
export const mismatchEvent = (applied: number, serviceVersion: number, instanceId: string): NewEvent => ({
  severity: 'critical',
  source: instanceId,
  event_type: 'control_version_mismatch',
  description: `This agent had applied control version ${applied} as active, but the service suspended it at version ${serviceVersion}; it is suspended`,
  instance_id: instanceId,
  metadata: { applied_version: applied, service_version: serviceVersion },
})

/** Event with the number of dropped events. */
export const droppedEvent = (count: number, instanceId: string): NewEvent => ({
  severity: 'warning',
  source: instanceId,
  event_type: 'sdk_events_dropped',
  description: `${count} events of this agent were dropped before the service stored them`,
  instance_id: instanceId,
  metadata: { count },
})
