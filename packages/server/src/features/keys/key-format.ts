import { hash, timingSafeEqual } from 'node:crypto'
import { type KeyScope, keyScopes } from '@wardline/contract'
import { base62, crc32Base62 } from '@wardline/text'
import { randomText } from '../../ids.ts'

const base36 = base62.slice(0, 10) + base62.slice(36)
/** 43 characters of base 62 encode 256 bits. */
const secretLength = 43
const shape = new RegExp(`^wl_(${keyScopes.join('|')})_([0-9a-z]{8})_([0-9A-Za-z]{${secretLength}})_([0-9A-Za-z]{6})$`)

/** Prefix of the id of the key from WARDLINE_API_KEY. Ids of stored keys have 8 characters and no hyphen. */
export const configuredKeyPrefix = 'configured-'

/** Returns the id of WARDLINE_API_KEY. It depends on the value, so that sessions end when the key is replaced. */
export const configuredKeyId = (keyHash: string): string => `${configuredKeyPrefix}${hashKey(keyHash).slice(0, 8)}`

interface GeneratedKey {
  id: string
  /** `wl_<scope>_<id>_<secret>_<checksum>`; shown once. */
  key: string
  secretHash: string
}

export function generateKey(scope: KeyScope): GeneratedKey {
  const id = randomText(8, base36)
  const body = `wl_${scope}_${id}_${randomText(secretLength, base62)}`
  const key = `${body}_${crc32Base62(body)}`
  return { id, key, secretHash: hashKey(key) }
}

/** Returns the id in a well-formed key with a correct checksum; undefined for any other text. */
export function parseKeyId(key: string): string | undefined {
  const match = shape.exec(key)
  if (!match || crc32Base62(key.slice(0, -7)) !== match[4]) return undefined
  return match[2]
}

/** Returns the SHA-256 in hex. A key has 256 random bits, so a slow hash would only add load. */
export const hashKey = (key: string): string => hash('sha256', key, 'hex')

/** Compares two hashes in constant time. */
export const sameHash = (left: string, right: string): boolean =>
  timingSafeEqual(Buffer.from(left, 'latin1'), Buffer.from(right, 'latin1'))
