import type { ControlMessage } from '@wardline/contract'
import type { ControlSigner } from '../../bus/control-signer.ts'
import { isoTime } from '../../clock.ts'

export interface ControlState {
  version: number
  suspended: boolean
  reason: string | null
}

function unsigned(instanceId: string, state: ControlState, issuedAt: number) {
  return {
    instance_id: instanceId,
    action: state.suspended ? ('suspend' as const) : ('resume' as const),
    ...(state.suspended && state.reason !== null ? { reason: state.reason } : {}),
    version: state.version,
    issued_at: isoTime(issuedAt),
  }
}

/** Returns the message that sets a subscriber to this state. */
export function controlMessage(
  instanceId: string,
  state: ControlState,
  issuedAt: number,
  signer: ControlSigner,
): ControlMessage {
  return signer.sign(unsigned(instanceId, state, issuedAt))
}

/** Returns the signature of this state as the header value of a poll response. */
export function controlHeaderValue(
  instanceId: string,
  state: ControlState,
  issuedAt: number,
  signer: ControlSigner,
): string {
  const message = unsigned(instanceId, state, issuedAt)
  return `version=${message.version}; issued_at=${message.issued_at}; signature=${signer.agentSignature(message)}`
}
