import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { openSettings, sealSettings } from './sealed-settings.ts'

const key = randomBytes(32)
const id = '0197a000-0000-7000-8000-000000000001'
const content = {
  settings: { url: 'https://hooks.example.com/CANARYcanary', secret: `whsec_${'A'.repeat(32)}` },
  previous_secrets: [{ secret: `whsec_${'B'.repeat(32)}`, until: 1_700_000_000_000 }],
}
const refusal = 'The settings cannot be decrypted: they were edited, moved, or encrypted with another master secret.'

describe('sealed settings', () => {
  it('are decrypted for their channel with their key', () => {
    expect(openSettings(id, sealSettings(id, content, key), key)).toEqual(content)
  })

  it('contain no plain text, and differ each time', () => {
    const [first, second] = [sealSettings(id, content, key), sealSettings(id, content, key)]
    expect(first).toMatch(/^v1\.[\w-]+$/)
    expect(first).not.toBe(second)
    for (const part of ['hooks.example', 'CANARYcanary', 'whsec_']) {
      expect(first).not.toContain(part)
      expect(Buffer.from(first.slice(3), 'base64url').toString('latin1')).not.toContain(part)
    }
  })

  // With write access to the database, an attacker could otherwise make one channel send to the receiver of another,
  // with its token.
  it('are refused for another channel', () => {
    expect(() => openSettings(id.replace(/1$/, '2'), sealSettings(id, content, key), key)).toThrow(refusal)
  })

  it('are refused with another key', () => {
    expect(() => openSettings(id, sealSettings(id, content, key), randomBytes(32))).toThrow(refusal)
  })

  // With a cipher without authentication, an attacker could change the URL by flipping bits of the ciphertext.
  it('are refused after any byte is changed, removed at the end or added', () => {
    const bytes = Buffer.from(sealSettings(id, content, key).slice(3), 'base64url')
    const sealedOf = (changed: Buffer) => `v1.${changed.toString('base64url')}`
    for (const [index, byte] of bytes.entries()) {
      const changed = Buffer.from(bytes)
      changed[index] = byte ^ 1
      expect(() => openSettings(id, sealedOf(changed), key), `byte ${index}`).toThrow(refusal)
    }
    for (const length of [0, 1, 12, 13, 20, 28, bytes.length - 1]) {
      expect(() => openSettings(id, sealedOf(bytes.subarray(0, length)), key), `${length} bytes`).toThrow(refusal)
    }
    expect(() => openSettings(id, sealedOf(Buffer.concat([bytes, Buffer.from('x')])), key)).toThrow(refusal)
    for (const text of [`v2.${bytes.toString('base64url')}`, '', 'v1', 'v1.', 'v2.abc', JSON.stringify(content)]) {
      expect(() => openSettings(id, text, key), text).toThrow(refusal)
    }
  })

  // The error is logged, so it must not contain the plain text.
  it('are refused with an error that does not contain them', () => {
    try {
      openSettings(id, `v1.${Buffer.from(JSON.stringify(content)).toString('base64url')}`, key)
      expect.unreachable()
    } catch (fault) {
      expect((fault as Error).cause).toBeUndefined()
      expect(String((fault as Error).stack)).not.toContain('CANARY')
    }
  })
})
