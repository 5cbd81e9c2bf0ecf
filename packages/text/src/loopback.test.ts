import { describe, expect, it } from 'vitest'
import { isLoopback } from './loopback.ts'

describe('isLoopback', () => {
  it.each(['127.0.0.1', '127.255.0.3', 'localhost', '::1', '[::1]'])('takes %s for this machine', (host) => {
    expect(isLoopback(host)).toBe(true)
  })

  // A name may begin like an address: the owner of the domain chooses the rest, and where it points.
  it.each([
    '127.evil.example',
    '127.0.0.1.evil.example',
    '0.0.0.0',
    '::',
    '128.0.0.1',
    'localhost.evil.example',
    '127.1',
    '',
  ])('does not take %s for it', (host) => {
    expect(isLoopback(host)).toBe(false)
  })
})
