import { crc32 } from 'node:zlib'

/** Digits of base 62 in ascending order. */
export const base62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

/**
 * Returns the CRC-32 (IEEE) of UTF-8 text as six base-62 digits, most significant first, like the checksums in GitHub
 * and npm tokens.
 */
export function crc32Base62(text: string): string {
  let rest = crc32(text)
  let digits = ''
  while (digits.length < 6) {
    digits = base62[rest % 62] + digits
    rest = Math.floor(rest / 62)
  }
  return digits
}
