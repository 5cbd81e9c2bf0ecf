import { randomBytes, randomInt } from 'node:crypto'

/** Random bytes per id. */
const bytesOfId = 10

// Caches blocks of random bytes and the formatted time of the last millisecond, because every event needs an id.
const block = { bytes: randomBytes(0), text: '', used: 0 }
const stamp = { epochMs: -1, text: '' }

function stampOf(epochMs: number): string {
  if (stamp.epochMs !== epochMs) {
    const hex = epochMs.toString(16).padStart(12, '0')
    stamp.epochMs = epochMs
    stamp.text = `${hex.slice(0, 8)}-${hex.slice(8)}-7`
  }
  return stamp.text
}

/** Returns a UUID version 7 (RFC 9562, section 5.7). It sorts by time, so indexes grow at one end. */
export function uuidV7(epochMs: number): string {
  if (block.used === block.bytes.length) {
    block.bytes = randomBytes(400 * bytesOfId)
    block.text = block.bytes.toString('hex')
    block.used = 0
  }
  const { bytes, text, used } = block
  block.used += bytesOfId
  const digit = 2 * used
  const variant = '89ab'[(bytes[used + 2]! >> 4) & 3]
  return `${stampOf(epochMs)}${text.slice(digit + 1, digit + 4)}-${variant}${text.slice(digit + 5, digit + 8)}-${text.slice(digit + 8, digit + 20)}`
}

/** Returns a lower bound for all UUIDs version 7 of this time or later. */
export function uuidV7Floor(epochMs: number): string {
  const hex = epochMs.toString(16).padStart(12, '0')
  return `${hex.slice(0, 8)}-${hex.slice(8)}-7000-8000-000000000000`
}

/** Returns when a UUID version 7 was made, in epoch milliseconds. */
export const timeOfId = (id: string): number => Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16)

/** Returns `length` random characters, uniformly distributed over `alphabet`. */
export function randomText(length: number, alphabet: string): string {
  let text = ''
  while (text.length < length) text += alphabet[randomInt(alphabet.length)]
  return text
}

/** Returns `bytes` random bytes as base64url. */
export const randomSecret = (bytes: number): string => randomBytes(bytes).toString('base64url')

/** Returns a random integer from `min` to `max`, both inclusive. */
export const randomBetween = (min: number, max: number): number => randomInt(min, max + 1)
