import { expect, test } from 'vitest'
import type { Service } from '../service/service.ts'
import { checkClock, checkTransport, clockSkewMs, describeRights } from './service.ts'

const noon = Date.parse('2026-11-21T12:00:00.000Z')
const header = (ms: number) => new Date(ms).toUTCString()

test('returns no skew if the whole seconds of the header and the duration of the request explain it', () => {
  expect(clockSkewMs(header(noon), noon, noon + 40)).toBe(0)
  expect(clockSkewMs(header(noon), noon + 900, noon + 950)).toBe(0)
  expect(clockSkewMs(header(noon), noon - 3_000, noon + 10)).toBe(0)
})

test('returns the minimum skew', () => {
  expect(clockSkewMs(header(noon + 10_000), noon, noon + 40)).toBe(9_960)
  expect(clockSkewMs(header(noon - 10_000), noon, noon + 40)).toBe(-9_001)
  expect(clockSkewMs(null, noon, noon)).toBeUndefined()
  expect(clockSkewMs('soon', noon, noon)).toBeUndefined()
})

test('reports ok, warn or fail by the size of the skew', () => {
  const verdict = (ms: number) =>
    checkClock({
      status: 200,
      body: {},
      headers: new Headers({ date: header(noon + ms) }),
      sentAt: noon,
      answeredAt: noon,
    })
  expect(verdict(0).status).toBe('ok')
  expect(verdict(20_000)).toMatchObject({
    status: 'warn',
    detail: 'The clock of the service is 20 s ahead of this machine.',
  })
  expect(verdict(-3_600_000)).toMatchObject({ status: 'fail', detail: expect.stringContaining('behind this machine') })
})

test('derives the scope from the permissions of the key', () => {
  const nothing = { read: false, control: false, administer: false, report: false }
  const resultOf = (rights: Partial<typeof nothing>) => {
    const { status, detail } = describeRights({ ...nothing, ...rights })
    return `${status} ${/Scope (\w+)/.exec(detail)?.[1]}`
  }
  expect(resultOf({ read: true, control: true, administer: true, report: true })).toBe('ok admin')
  expect(resultOf({ read: true, control: true })).toBe('ok operator')
  expect(resultOf({ read: true })).toBe('warn viewer')
  expect(resultOf({ report: true })).toBe('fail agent')
  expect(resultOf({})).toBe('fail undefined')
})

test('warns if the key is sent over a network unencrypted', () => {
  const verdict = (url: string) => checkTransport({ url, key: 'k' } as Service).status
  expect(['https://a.example', 'http://127.0.0.1:1', 'http://[::1]:1', 'http://localhost:1'].map(verdict)).toEqual(
    Array(4).fill('ok'),
  )
  expect(['http://a.example', 'http://127.0.0.1.example', 'http://10.0.0.1:4747'].map(verdict)).toEqual(
    Array(3).fill('warn'),
  )
})
