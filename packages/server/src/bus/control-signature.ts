import { createHmac } from 'node:crypto'
import type { ControlMessage } from '@wardline/contract'

export type UnsignedControl = Omit<ControlMessage, 'signature' | 'signature_ed25519'>

/**
 * Hex HMAC-SHA256 over instance_id, action, reason (empty on resume), version and issued_at, each followed by a line
 * feed. Only the reason may hold line feeds, and it stands between fields that cannot: no two messages share a text.
 */
export function signControl(message: UnsignedControl, key: Buffer): string {
  const { instance_id, action, reason = '', version, issued_at } = message
  return createHmac('sha256', key)
    .update(`${instance_id}\n${action}\n${reason}\n${version}\n${issued_at}\n`)
    .digest('hex')
}
