import { ControlMessage } from '@wardline/contract'
import { lazyCheck } from '../validation.ts'
import { controlText } from './control-signature.ts'
import { type Notice, readNotice } from './notice.ts'
import { isMacOf, type Mac } from './signed-event.ts'

/** Far above the longest reason, even fully escaped. */
const maxBytes = 16 * 1024

const isControlMessage = lazyCheck(ControlMessage)

function parse(message: Buffer): unknown {
  try {
    return JSON.parse(message.toString())
  } catch {
    return undefined
  }
}

/** Returns what a message of the control channel says, or the reason for refusing it. */
export function readControlChannel(
  message: Buffer,
  now: number,
  mac: Mac,
):
  | { control: ControlMessage }
  | { notice: Notice; signature: string }
  | 'too_large'
  | 'malformed'
  | 'unsigned'
  | 'stale' {
  if (message.length > maxBytes) return 'too_large'
  const parsed = parse(message)
  const notice = readNotice(parsed, now, mac)
  if (notice !== undefined) return notice
  if (!isControlMessage(parsed)) return 'malformed'
  const given = parsed as ControlMessage
  if (!Number.isSafeInteger(given.version)) return 'malformed'
  if (!isMacOf(controlText(given), given.signature, mac)) return 'unsigned'
  // Drop fields that the signature does not cover; otherwise they would reach the agents as if they were genuine.
  const { instance_id, action, reason, version, issued_at, signature } = given
  return {
    control: { instance_id, action, ...(action === 'suspend' ? { reason } : {}), version, issued_at, signature },
  }
}
