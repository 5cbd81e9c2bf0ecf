import { createHmac, createSecretKey, timingSafeEqual } from 'node:crypto'
import { limits } from '@wardline/contract'

// A message is the JSON row of an event with an additional last field: the hex HMAC-SHA256 of the row without it.
// Without the HMAC, any program that can publish could replace the row that is stored next.

const opening = ',"signature":"'
const closing = '"}'
const hexLength = 64
const tailLength = opening.length + hexLength + closing.length

/** Computes a message authentication code. */
export type Mac = (bytes: Buffer) => Buffer

/**
 * Creates an HMAC-SHA256 function, called once or twice per event. It reuses a key object, because creating one from
 * raw bytes in each call takes 15 instead of 3 µs of CPU for a row of 300 bytes.
 */
export function createMac(key: Buffer): Mac {
  const secret = createSecretKey(key)
  return (bytes) => createHmac('sha256', secret).update(bytes).digest()
}

/** Whether the text is the code of the bytes, in lower-case hex. */
export function isMacOf(bytes: Buffer, given: string, mac: Mac): boolean {
  const right = Buffer.from(mac(bytes).toString('hex'))
  const compared = Buffer.from(given)
  return compared.length === right.length && timingSafeEqual(compared, right)
}

/** Returns the signed message for an event's row (a JSON object), and the signature. */
export function eventMessage(row: string, mac: Mac): { text: string; signature: string } {
  const signature = mac(Buffer.from(row)).toString('hex')
  return { text: `${row.slice(0, -1)}${opening}${signature}${closing}`, signature }
}

/** Returns the unverified signature at the end of the message; undefined if there is none. */
export function signatureOf(message: Buffer): string | undefined {
  const tail = message.toString('latin1', Math.max(0, message.length - tailLength))
  const signature = tail.slice(opening.length, -closing.length)
  const fits = tail.startsWith(opening) && tail.endsWith(closing) && /^[0-9a-f]{64}$/.test(signature)
  return fits ? signature : undefined
}

/** Returns the row if a process of this deployment signed it, or the reason for refusing the message. */
export function readEventMessage(
  message: Buffer,
  signature: string | undefined,
  mac: Mac,
): { row: string } | 'too_large' | 'unsigned' {
  if (message.length > limits.bodyBytes) return 'too_large'
  if (signature === undefined) return 'unsigned'
  const row = Buffer.concat([message.subarray(0, message.length - tailLength), Buffer.from('}')])
  if (!timingSafeEqual(mac(row), Buffer.from(signature, 'hex'))) return 'unsigned'
  return { row: row.toString() }
}
