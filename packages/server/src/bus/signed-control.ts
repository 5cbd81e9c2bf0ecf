import { timingSafeEqual } from 'node:crypto'
import { ControlMessage } from '@wardline/contract'
import { lazyCheck } from '../validation.ts'
import { signControl } from './control-signature.ts'
import type { Mac } from './signed-event.ts'

/** Far above the longest reason, even fully escaped. */
const maxBytes = 16 * 1024

const isControlMessage = lazyCheck(ControlMessage)

function isSigned(message: ControlMessage, mac: Mac): boolean {
  const given = Buffer.from(message.signature)
  const right = Buffer.from(signControl(message, mac))
  return given.length === right.length && timingSafeEqual(given, right)
}

function parse(message: Buffer): unknown {
  try {
    return JSON.parse(message.toString())
  } catch {
    return undefined
  }
}

/** Returns the kill or resume in a message of the control channel, or the reason for refusing it. */
export function readControlMessage(message: Buffer, mac: Mac): ControlMessage | 'too_large' | 'malformed' | 'unsigned' {
  if (message.length > maxBytes) return 'too_large'
  const parsed = parse(message)
  if (!isControlMessage(parsed)) return 'malformed'
  const given = parsed as ControlMessage
  if (!Number.isSafeInteger(given.version)) return 'malformed'
  if (!isSigned(given, mac)) return 'unsigned'
  // Drop fields that the signature does not cover; otherwise they would reach the agents as if they were genuine.
  const { instance_id, action, reason, version, issued_at, signature } = given
  return { instance_id, action, ...(action === 'suspend' ? { reason } : {}), version, issued_at, signature }
}
