import fc from 'fast-check'
import { expect, test } from 'vitest'
import { lineReader } from './control-stream.ts'
import { backoff, jittered, usualPace } from './pace.ts'
import { retryAfterMs } from './service.ts'

test('reads the same lines wherever chunks are split', () => {
  const text = ':\n\ndata: {"a":1}\nretry: 2000\n\ndata: {"b":2}\r\nid: 7\r\n\r\ndata:{"c":3}\n\n'
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 12 })), (sizes) => {
      const lines: string[] = []
      const read = lineReader((line) => lines.push(line))
      let place = 0
      for (const size of [...sizes, text.length]) {
        expect(read(text.slice(place, place + size))).toBe(true)
        place += size
      }
      expect(lines.filter((line) => line !== '')).toEqual(text.split(/\r?\n/).filter((line) => line !== ''))
    }),
    { seed: 1 },
  )
})

// A compromised service could send an endless line to fill the memory of every agent.
test('rejects a stream with an endless line', () => {
  const read = lineReader(() => {})
  let isFine = true
  for (let chunks = 0; chunks < 100 && isFine; chunks++) isFine = read('x'.repeat(10_000))
  expect(isFine).toBe(false)
})

test('increases the random wait with each attempt, within bounds', () => {
  for (let attempt = 0; attempt < 50; attempt++) {
    const wait = backoff(usualPace, attempt)
    expect(wait).toBeGreaterThanOrEqual(1_000)
    expect(wait).toBeLessThanOrEqual(Math.min(30_000, 2_000 * 2 ** attempt))
    expect(jittered(30_000)).toBeGreaterThanOrEqual(24_000)
    expect(jittered(30_000)).toBeLessThanOrEqual(36_000)
  }
  expect(new Set(Array.from({ length: 20 }, () => backoff(usualPace, 9))).size).toBeGreaterThan(10)
})

// Without a limit, a Retry-After of a day would block the kill switch for a day.
test('respects Retry-After up to a minute', () => {
  expect(retryAfterMs('5')).toBe(5_000)
  expect(retryAfterMs('86400')).toBe(60_000)
  expect(retryAfterMs(new Date(Date.now() - 5_000).toUTCString())).toBe(0)
  expect(retryAfterMs(new Date(Date.now() + 20_000).toUTCString())).toBeGreaterThan(10_000)
  for (const nothing of [undefined, null, '', 'soon', '-1x']) expect(retryAfterMs(nothing)).toBeUndefined()
})
