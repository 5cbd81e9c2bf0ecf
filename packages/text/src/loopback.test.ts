import { describe, expect, it } from 'vitest'
import { isLoopback, reachableUrl } from './loopback.ts'

describe('isLoopback', () => {
  it.each(['127.0.0.1', '127.255.0.3', 'localhost', '::1', '[::1]'])('accepts %s', (host) => {
    expect(isLoopback(host)).toBe(true)
  })

  // The owner of a domain can choose a name that starts like a loopback address, and its target.
  it.each([
    '127.evil.example',
    '127.0.0.1.evil.example',
    '0.0.0.0',
    '::',
    '128.0.0.1',
    'localhost.evil.example',
    '127.1',
    '',
  ])('rejects %s', (host) => {
    expect(isLoopback(host)).toBe(false)
  })
})

it('a service that listens on all addresses is reached by loopback', () => {
  expect(reachableUrl('http://0.0.0.0:4747')).toBe('http://127.0.0.1:4747')
  expect(reachableUrl('http://[::]:4747')).toBe('http://[::1]:4747')
  expect(reachableUrl('http://10.0.0.7:4747')).toBe('http://10.0.0.7:4747')
})
