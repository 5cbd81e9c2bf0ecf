import { ApprovalMessage, PolicyMessage, Type } from '@wardline/contract'
import { isoTime } from '../clock.ts'
import { lazyCheck } from '../validation.ts'
import { isMacOf, type Mac } from './signed-event.ts'

// A notice travels on the control channel in an envelope without instance_id, action and version, so that a program
// that listens there for kills and resumes cannot take it for one.

/**
 * Says that agents may fetch something new, a policy set (all agents) or the decision on a request (one agent), or that
 * gateways have a drill to answer.
 */
export type Notice = Omit<PolicyMessage, 'instance_id'> | ApprovalMessage | { action: 'drill' }

const { action, version } = PolicyMessage.properties
const drill = Type.Object({ action: Type.Literal('drill') })
const isNotice = lazyCheck(Type.Union([Type.Object({ action, version }), ApprovalMessage, drill]))

/** Of processes whose clocks differ and of a slow channel. An older notice is a recording: clients ask again anyway. */
const maxAgeMs = 60_000

const signedText = (issuedAt: string, text: string) => Buffer.from(`wardline-notice-v1\n${issuedAt}\n${text}\n`)

/** Returns the text for the control channel, and its signature: HMAC-SHA256, hex. */
export function noticeMessage(notice: Notice, now: number, mac: Mac): { text: string; signature: string } {
  const text = JSON.stringify(notice)
  const issued_at = isoTime(now)
  const signature = mac(signedText(issued_at, text)).toString('hex')
  return { text: JSON.stringify({ notice: text, issued_at, signature }), signature }
}

/** Returns the notice in a parsed message, undefined when it is none, or the reason for refusing it. */
export function readNotice(
  parsed: unknown,
  now: number,
  mac: Mac,
): { notice: Notice; signature: string } | 'malformed' | 'unsigned' | 'stale' | undefined {
  const { notice: text, issued_at, signature } = Object(parsed) as Record<string, unknown>
  if (text === undefined) return undefined
  if (typeof text !== 'string' || typeof issued_at !== 'string' || typeof signature !== 'string') return 'malformed'
  if (!isMacOf(signedText(issued_at, text), signature, mac)) return 'unsigned'
  if (!(Math.abs(now - Date.parse(issued_at)) <= maxAgeMs)) return 'stale'
  const notice: unknown = JSON.parse(text)
  return isNotice(notice) ? { notice: notice as Notice, signature } : 'malformed'
}
