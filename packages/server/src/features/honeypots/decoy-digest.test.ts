import { createHmac } from 'node:crypto'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { anyCharacter } from '../../../../../test-servers/any-character.ts'
import { createDecoyDigest } from './decoy-digest.ts'

// Earlier versions stored decoys by the runtime's own HMAC: a different result would lose all of them.
test('equals HMAC-SHA256 as computed by the runtime', () => {
  const key = fc.uint8Array({ minLength: 1, maxLength: 200 })
  fc.assert(
    fc.property(key, fc.string({ unit: anyCharacter }), (bytes, form) => {
      const expected = createHmac('sha256', bytes).update(`key:${form}`).digest('base64url')
      expect(createDecoyDigest(Buffer.from(bytes))('key', form)).toBe(expected)
    }),
  )
})
