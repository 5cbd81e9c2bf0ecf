import { plainPath } from './decoy-paths.ts'
import type { ModelAnswer, Report, Severity, ToolCall } from './monitor.ts'
import { redacted, redactedId, redactedText } from './redact.ts'
import { callFields } from './tool-fields.ts'

export { redactedText }

/** An event as the service accepts it; a test compares it with the service's own type. */
export interface NewEvent {
  severity: Severity
  source: string
  event_type: string
  description: string
  instance_id: string
  session_id?: string | undefined
  metadata?: Record<string, unknown> | undefined
}

const severities = ['info', 'warning', 'critical', 'breach']
const paramsBytes = 4 * 1024
/** Limits for the paths and the hosts of a call, in addition to its arguments. Many paths must not push out a host. */
const pathsBytes = 3 * 1024
const hostsBytes = 2 * 1024
/** Of a longer path the end is reported, which says more. */
const maxShownPath = 400
const maxCommandLength = 1000
/** Limit for metadata; the service accepts 16 KiB. */
const metadataBytes = 12 * 1024
const maxDescriptionLength = 1000
const maxToolNameLength = 100
const maxCallId = 200

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
    ...(sessionId ? { session_id: redactedId(sessionId) } : {}),
    ...(metadata === undefined ? {} : { metadata: redacted(metadata, metadataBytes) as Record<string, unknown> }),
  }
}

/** The id that the model gave a call: telemetry of the same call has it too. */
export const shownCallId = (callId: unknown): { callId?: string } =>
  typeof callId === 'string' && callId !== ''
    ? { callId: callId.slice(0, maxCallId).replaceAll('\0', '').toWellFormed() }
    : {}

/** Returns the `tool_call` event, or an error text if the call is invalid. */
export function toolCallEvent(call: ToolCall, instanceId: string, result?: object, flow?: object): NewEvent | string {
  const { toolName, durationMs, ok = true, sessionId, params, callId } = Object(call) as ToolCall
  if (typeof toolName !== 'string' || toolName === '') return 'toolName must be a string'
  const shownName = redactedText(toolName, maxToolNameLength)
  const description = ok ? shownName : `${shownName} failed`
  const event = eventOf({ severity: 'info', eventType: 'tool_call', description, sessionId }, instanceId)
  if (typeof event === 'string') return event
  const metadata = {
    toolName: shownName,
    ...(Number.isFinite(durationMs) ? { durationMs: Math.round((durationMs as number) * 1000) / 1000 } : {}),
    ok,
    ...shownCallId(callId),
    ...reportedFields(toolName, params),
    ...(params === undefined ? {} : { params: redacted(params, paramsBytes) }),
    ...(result && { result }),
    ...(flow && { flow }),
  }
  return { ...event, metadata }
}

/** Where a secret is sent to stays visible if it is a label of the name. */
const redactedHost = (host: string): string =>
  host
    .split('.')
    .map((label) => (redactedText(label, label.length) === label ? label : 'redacted'))
    .join('.')

/** Empty parts and detours are removed first: they would hide from the service which file it is. */
function shownPath(path: string): string {
  const plain = path.length > maxShownPath ? plainPath(path) : path
  return plain.length > maxShownPath ? `…${plain.slice(1 - maxShownPath)}` : plain
}

const isCutShort = (list: readonly unknown[]): boolean => /^\[(?:[0-9]+ more|cut)\]$/.test(String(list.at(-1)))

/** The fields of a call without secrets; lists without an element are left out. */
function reportedFields(toolName: string, params: unknown): Record<string, unknown> {
  const fields = callFields(toolName, params)
  const paths = redacted(fields.paths.map(shownPath), pathsBytes) as unknown[]
  const hosts = redacted(fields.hosts.map(redactedHost), hostsBytes) as unknown[]
  return {
    action: fields.action,
    ...(paths.length === 0 ? {} : { paths }),
    ...(hosts.length === 0 ? {} : { hosts }),
    ...(fields.isCut || isCutShort(paths) || isCutShort(hosts) ? { fields_cut: true } : {}),
    ...(fields.command === undefined ? {} : { command: redactedText(fields.command, maxCommandLength) }),
  }
}

/** Returns the event of a call whose `tool_call` was reported before it ran. */
export function toolResultEvent(call: ToolCall, instanceId: string, result: object | undefined): NewEvent {
  const { toolName, ok = true, sessionId } = call
  const shownName = redactedText(toolName, maxToolNameLength)
  const description = ok ? `Result of ${shownName}` : `${shownName} failed`
  const event = eventOf({ severity: 'info', eventType: 'tool_result', description, sessionId }, instanceId) as NewEvent
  return { ...event, metadata: { toolName: shownName, ok, ...(result && { result }) } }
}

/** Returns the event of an answer, or an error text if the session is invalid. */
export function answerEvent({ sessionId }: ModelAnswer, instanceId: string, result: object): NewEvent | string {
  const event = eventOf({ severity: 'info', eventType: 'model_answer', description: 'Answer', sessionId }, instanceId)
  return typeof event === 'string' ? event : { ...event, metadata: { result } }
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
