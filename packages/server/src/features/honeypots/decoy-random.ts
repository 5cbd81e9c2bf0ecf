import { randomBytes } from 'node:crypto'
import { base62 } from '@wardline/text'

/** Returns `size` uniformly distributed bytes: from the operating system, or from a seeded source in tests. */
export type RandomBytes = (size: number) => Uint8Array

export const secureRandom: RandomBytes = (size) => randomBytes(size)

const digits = '0123456789'
const lower = 'abcdefghijklmnopqrstuvwxyz'
const upper = lower.toUpperCase()

export const alphabets = {
  digits,
  hex: `${digits}abcdef`,
  letters: upper + lower,
  base32: `${upper}234567`,
  base62,
  base64: `${upper}${lower}${digits}+/`,
  base64url: `${upper}${lower}${digits}-_`,
} as const

/**
 * `length` characters drawn evenly from `alphabet` (at most 256 characters). A byte beyond the largest multiple of
 * the alphabet's size is thrown away, since taking it modulo the size would favour the first characters.
 */
export function drawText(random: RandomBytes, alphabet: string, length: number): string {
  const limit = 256 - (256 % alphabet.length)
  let text = ''
  while (text.length < length) {
    for (const byte of random(length - text.length)) {
      if (byte < limit) text += alphabet[byte % alphabet.length]
    }
  }
  return text
}

/** An integer from 0 to `bound - 1`, evenly drawn; `bound` is at most 2^48. */
export function randomBelow(random: RandomBytes, bound: number): number {
  const limit = 2 ** 48 - (2 ** 48 % bound)
  for (;;) {
    const value = Buffer.from(random(6)).readUIntBE(0, 6)
    if (value < limit) return value % bound
  }
}

export function pick<T>(random: RandomBytes, choices: readonly T[]): T {
  return choices[randomBelow(random, choices.length)]!
}
