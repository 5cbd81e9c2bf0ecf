import { crc32 } from 'node:zlib'

/** Digits of base 62 in ascending order. */
export const base62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

/** CRC-32 (IEEE) of UTF-8 text in six digits of base 62, the most significant first, as GitHub and npm end their tokens. */
export function crc32Base62(text: string): string {
  let rest = crc32(text)
  let digits = ''
  while (digits.length < 6) {
    digits = base62[rest % 62] + digits
    rest = Math.floor(rest / 62)
  }
  return digits
}
