import { createHmac } from 'node:crypto'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createDecoyDigest } from './decoy-digest.ts'

// Decoys of earlier versions were stored by the runtime's own HMAC: another result would lose every one of them.
test('a digest is the HMAC-SHA256 that it always was', () => {
  const key = fc.uint8Array({ minLength: 1, maxLength: 200 })
  fc.assert(
    fc.property(key, fc.string({ unit: 'binary' }), (bytes, form) => {
      const expected = createHmac('sha256', bytes).update(`key:${form}`).digest('base64url')
      expect(createDecoyDigest(Buffer.from(bytes))('key', form)).toBe(expected)
    }),
  )
})
