import { crc32 } from 'node:zlib'
import { alphabets } from './decoy-random.ts'

/**
 * A routable GitLab token: base64url of random bytes, the routing payload (sorted `key:value` lines, numbers in
 * base 36) and the payload's length in one byte; then the format version, the length of the base64 part, and a CRC-32
 * over everything before it, prefix included.
 */
export function gitlabRoutableToken(entropy: Uint8Array, routing: Readonly<Record<string, number>>): string {
  const payload = Object.keys(routing)
    .sort()
    .map((key) => `${key}:${routing[key]!.toString(36)}`)
    .join('\n')
  const body = Buffer.concat([entropy, Buffer.from(payload), Buffer.from([payload.length])]).toString('base64url')
  const head = `glpat-${body}.01.${body.length.toString(36).padStart(2, '0')}`
  return head + crc32(head).toString(36).padStart(7, '0')
}

export function isGitlabRoutableToken(token: string): boolean {
  return crc32(token.slice(0, -7)).toString(36).padStart(7, '0') === token.slice(-7)
}

const low39Bits = (1n << 39n) - 1n

/**
 * The 16 characters after `AKIA`: base32 of one set bit, the 40-bit account number, and 39 further bits. Scanners read
 * the account back, so every decoy needs a different account number.
 */
export function awsKeyIdBody(account: number, tail: bigint): string {
  let bits = (1n << 79n) | (BigInt(account) << 39n) | (tail & low39Bits)
  let text = ''
  for (let place = 0; place < 16; place++) {
    text = alphabets.base32[Number(bits & 31n)] + text
    bits >>= 5n
  }
  return text
}

/** Marvin32, the keyed checksum of Microsoft's identifiable secrets: a 64-bit state folded to 32 bits. */
export function marvin32(bytes: Uint8Array, seed: bigint): number {
  const padded = new Uint8Array(bytes.length - (bytes.length % 4) + 4)
  padded.set(bytes)
  padded[bytes.length] = 0x80
  const words = new DataView(padded.buffer)
  let low = Number(seed & 0xffffffffn) | 0
  let high = Number(seed >> 32n) | 0
  const mix = (): void => {
    high ^= low
    low = (rotate(low, 20) + high) | 0
    high = rotate(high, 9) ^ low
    low = (rotate(low, 27) + high) | 0
    high = rotate(high, 19)
  }
  for (let offset = 0; offset < padded.length; offset += 4) {
    low = (low + words.getUint32(offset, true)) | 0
    mix()
  }
  mix()
  return (low ^ high) >>> 0
}

function rotate(value: number, count: number): number {
  return (value << count) | (value >>> (32 - count))
}

/** The ASCII text "Default0", the published seed of Azure storage keys. */
const azureSeed = 0x4465_6661_756c_7430n
const azureMark = Buffer.from('+ASt', 'base64')

/** An Azure storage key from 57 random bytes: a fixed mark, then Marvin32 over all before it, little-endian. */
export function azureStorageKey(entropy: Uint8Array): string {
  const key = Buffer.alloc(64)
  key.set(entropy.subarray(0, 57))
  key.set(azureMark, 57)
  key.writeUInt32LE(marvin32(key.subarray(0, 60), azureSeed), 60)
  return key.toString('base64')
}

export function isAzureStorageKey(text: string): boolean {
  const key = Buffer.from(text, 'base64')
  return key.length === 64 && key.readUInt32LE(60) === marvin32(key.subarray(0, 60), azureSeed)
}
