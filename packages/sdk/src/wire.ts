import type { FailMode } from './monitor.ts'

// The part of the service's API that this package uses. A test compares these types with the service's own.

export interface Heartbeat {
  instance_id: string
  name: string
  agent_type?: string | undefined
  version?: string | undefined
  fail_mode: FailMode
  boot_id?: string | undefined
  control_version?: number | undefined
  tags?: string[] | undefined
  parent_instance_id?: string | undefined
  leaving?: boolean | undefined
  /** Only of a supervisor. */
  supervisor?: { processes: number; isolated: boolean } | undefined
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
  issued_at?: string
  signature_ed25519?: string
}

/** State of the kill switch as sent by the service, by push or by poll. */
export interface ControlState extends KillSwitchState {
  version: number
}

/** Whether this state of the instance was signed by one of the deployment's keys. */
export type Verify = (received: ControlState, issuedAt: unknown, signature: unknown) => boolean

/** Returns the errors in the answer to a batch. Tolerates any body, because the sender need not be the service. */
export function errorsOf(body: object, events: number): EventBatchReply['errors'] {
  const { errors } = body as Partial<EventBatchReply>
  return Array.isArray(errors) ? errors.slice(0, events).map((error) => Object(error)) : []
}

/** Whether the service sends "suspended" although an equal or higher version is known as active. */
export const contradicts = (received: ControlState, known: ControlState | undefined): boolean =>
  received.suspended && known?.suspended === false && received.version <= known.version

/** Header of every answer to a suspended agent: the control version. It is not signed, so it only says when to poll. */
export const suspendedHeader = 'wardline-suspended'

/** Returns the version in `suspendedHeader`; undefined if it is no version. */
export function announcedSuspension(text: string | null): number | undefined {
  if (text === null || !/^\d{1,16}$/.test(text)) return undefined
  return Number.isSafeInteger(Number(text)) ? Number(text) : undefined
}

/** Whether a poll may bring a suspension of this version that is not known yet. */
export function isNewSuspension(version: number, known: ControlState | undefined): boolean {
  return version > (known?.version ?? -1) || contradicts({ version, suspended: true, reason: null }, known)
}

/** Returns the state in the answer to a poll; undefined if there is none or a proxy removed the version (ETag). */
export function stateFromPoll(body: Partial<KillSwitchState>, etag: string | null): ControlState | undefined {
  const version = /^(?:W\/)?"(\d{1,15})"$/.exec(etag ?? '')?.[1]
  if (version === undefined || typeof body.suspended !== 'boolean') return undefined
  return { version: Number(version), suspended: body.suspended, reason: textOrNull(body.reason) }
}

/** Returns the state in a message of the control stream; undefined if it is not a state of this instance. */
export function stateFromStream(
  text: string,
  instanceId: string,
  verify?: Verify,
): ControlState | 'unsigned' | undefined {
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
  const received = { version: version as number, suspended: action === 'suspend', reason: textOrNull(reason) }
  return !verify || verify(received, message.issued_at, message.signature_ed25519) ? received : 'unsigned'
}

/**
 * The service's limit for a reason, in code points, which may take two UTF-16 units each. A shortened reason would fail
 * signature verification.
 */
const maxReasonLength = 500
const textOrNull = (value: unknown): string | null =>
  typeof value === 'string'
    ? [...value.slice(0, 2 * maxReasonLength)].slice(0, maxReasonLength).join('').toWellFormed()
    : null
