import type { ControlMessage } from '@wardline/contract'
import { signControl } from '../../bus/control-signature.ts'
import { isoTime } from '../../clock.ts'

export interface ControlState {
  version: number
  suspended: boolean
  reason: string | null
}

/** The message that brings a subscriber to this state. */
export function controlMessage(instanceId: string, state: ControlState, issuedAt: number, key: Buffer): ControlMessage {
  const message = {
    instance_id: instanceId,
    action: state.suspended ? ('suspend' as const) : ('resume' as const),
    ...(state.suspended && state.reason !== null ? { reason: state.reason } : {}),
    version: state.version,
    issued_at: isoTime(issuedAt),
  }
  return { ...message, signature: signControl(message, key) }
}
