import { randomBytes, randomInt } from 'node:crypto'

// Random bytes are drawn in blocks: one call per id would cost more than the id itself.
const block = { bytes: randomBytes(4096), used: 0 }

function takeRandom(count: number): Buffer {
  if (block.used + count > block.bytes.length) {
    block.bytes = randomBytes(4096)
    block.used = 0
  }
  block.used += count
  return block.bytes.subarray(block.used - count, block.used)
}

/** A UUID version 7 (RFC 9562, section 5.7): sorts by time, so indexes grow at one end. */
export function uuidV7(epochMs: number): string {
  const hex = epochMs.toString(16).padStart(12, '0')
  const random = takeRandom(10)
  random[0] = 0x70 | (random[0]! & 0x0f)
  random[2] = 0x80 | (random[2]! & 0x3f)
  const tail = random.toString('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8)}-${tail.slice(0, 4)}-${tail.slice(4, 8)}-${tail.slice(8)}`
}

/** No UUID version 7 of this instant or later is below it. */
export function uuidV7Floor(epochMs: number): string {
  const hex = epochMs.toString(16).padStart(12, '0')
  return `${hex.slice(0, 8)}-${hex.slice(8)}-7000-8000-000000000000`
}

/** `length` characters drawn evenly from `alphabet`. */
export function randomText(length: number, alphabet: string): string {
  let text = ''
  while (text.length < length) text += alphabet[randomInt(alphabet.length)]
  return text
}

/** `bytes` random bytes as base64url. */
export const randomSecret = (bytes: number): string => randomBytes(bytes).toString('base64url')

/** A whole number from `least` to `most`, for spreading things over time. */
export const randomBetween = (least: number, most: number): number => randomInt(least, most + 1)
