import type { FailMode, Severity } from './monitor.ts'

// What crosses the wire, as far as this package needs it. A test compares these types with the service's own.

export interface Heartbeat {
  instance_id: string
  name: string
  agent_type?: string | undefined
  version?: string | undefined
  fail_mode: FailMode
  boot_id: string
  control_version?: number | undefined
}

export interface NewEvent {
  severity: Severity
  source: string
  event_type: string
  description: string
  instance_id: string
  session_id?: string | undefined
  metadata?: Record<string, unknown> | undefined
}

export interface EventBatchReply {
  ids: (string | null)[]
  errors: { index: number; error: string }[]
}

export interface KillSwitchState {
  suspended: boolean
  reason: string | null
}

export interface ControlMessage {
  instance_id: string
  action: 'suspend' | 'resume'
  reason?: string
  version: number
}

/** What the service says of the kill switch, by push or by poll. */
export interface Told extends KillSwitchState {
  version: number
}

/** The state that a poll was answered with; undefined when it is none, or when a proxy took the version away. */
export function toldByPoll(body: Partial<KillSwitchState>, etag: string | null): Told | undefined {
  const version = /^(?:W\/)?"(\d{1,15})"$/.exec(etag ?? '')?.[1]
  if (version === undefined || typeof body.suspended !== 'boolean') return undefined
  return { version: Number(version), suspended: body.suspended, reason: textOrNull(body.reason) }
}

/** The state in a message of the control stream; undefined when it is not one for this instance. */
export function toldByStream(text: string, instanceId: string): Told | undefined {
  let message: Partial<ControlMessage> | null
  try {
    message = JSON.parse(text)
  } catch {
    return undefined
  }
  if (message?.instance_id !== instanceId) return undefined
  const { action, version, reason } = message
  if (action !== 'suspend' && action !== 'resume') return undefined
  if (!Number.isSafeInteger(version) || (version as number) < 0) return undefined
  return { version: version as number, suspended: action === 'suspend', reason: textOrNull(reason) }
}

const textOrNull = (value: unknown): string | null => (typeof value === 'string' ? value : null)
