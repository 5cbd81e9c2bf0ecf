import type { ControlMessage } from '@wardline/contract'
import type { Mac } from './signed-event.ts'

export type UnsignedControl = Omit<ControlMessage, 'signature' | 'signature_ed25519'>

/** What is signed: its lines are described at `signControl`. */
export function controlText({ instance_id, action, reason = '', version, issued_at }: UnsignedControl): Buffer {
  return Buffer.from(`${instance_id}\n${action}\n${reason}\n${version}\n${issued_at}\n`)
}

/**
 * Hex HMAC-SHA256 over instance_id, action, reason (empty on resume), version and issued_at, each followed by a line
 * feed. Only the reason may contain line feeds, and the fields around it cannot, so no two messages share a text.
 */
export function signControl(message: UnsignedControl, mac: Mac): string {
  return mac(controlText(message)).toString('hex')
}
