import { keyScopes } from '@wardline/contract'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { generateKey, hashKey, parseKeyId, sameHash } from './key-format.ts'

describe('generateKey', () => {
  it.each(keyScopes)('creates a key of scope %s that contains its scope and its id', (scope) => {
    const { id, key, secretHash } = generateKey(scope)
    expect(key).toMatch(new RegExp(`^wl_${scope}_[0-9a-z]{8}_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}$`))
    expect(parseKeyId(key)).toBe(id)
    expect(secretHash).toBe(hashKey(key))
  })

  it('never repeats a secret or an id', () => {
    const keys = Array.from({ length: 200 }, () => generateKey('agent'))
    expect(new Set(keys.map(({ key }) => key.slice(-50))).size).toBe(200)
    expect(new Set(keys.map(({ id }) => id)).size).toBe(200)
  })
})

describe('parseKeyId', () => {
  it('rejects a key in which one character was changed', () => {
    const { key } = generateKey('operator')
    const character = fc.constantFrom(...'0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_- ')
    fc.assert(
      fc.property(fc.nat(key.length - 1), character, (place, other) => {
        fc.pre(key[place] !== other)
        expect(parseKeyId(key.slice(0, place) + other + key.slice(place + 1))).toBeUndefined()
      }),
      { numRuns: 500 },
    )
  })

  // The text of a key contains its scope; a client must gain nothing by changing it.
  it('rejects a key whose scope was changed', () => {
    const { key } = generateKey('agent')
    expect(parseKeyId(key.replace('wl_agent', 'wl_admin'))).toBeUndefined()
  })

  it('rejects all other texts', () => {
    const { key } = generateKey('viewer')
    for (const text of ['', 'wl_', ` ${key}`, `${key} `, `${key}\n`, key.slice(0, -1), `${key}a`, key.toUpperCase()]) {
      expect(parseKeyId(text), JSON.stringify(text)).toBeUndefined()
    }
    fc.assert(fc.property(fc.string(), (text) => parseKeyId(text) === undefined))
  })
})

describe('sameHash', () => {
  it('returns true for equal hashes and false for different ones', () => {
    expect(sameHash(hashKey('a'), hashKey('a'))).toBe(true)
    expect(sameHash(hashKey('a'), hashKey('b'))).toBe(false)
  })
})
