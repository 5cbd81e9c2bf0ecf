import { expect, test } from 'vitest'
import { openTestService } from '../testing/service.ts'
import { RefusalPace } from './problem.ts'

test('refusals above 200 per second are delayed', () => {
  const pace = new RefusalPace()
  const waits = (count: number, now: number) => Array.from({ length: count }, () => pace.next(now))
  expect(waits(200, 0)).toEqual(Array(200).fill(0))
  expect(waits(300, 0)).toEqual(Array(300).fill(100))
  expect(waits(200, 1_000)).toEqual(Array(200).fill(0))
  expect(waits(101, 1_500)).toEqual([...Array(100).fill(0), 100])
})

// Twenty connections that retried immediately could keep the process busy with nothing but refusals.
test('a flood of refusals is sent later than the response to a request that came after it', async () => {
  await using service = await openTestService()
  const made = await service.call<{ key: string }>('POST', '/api/keys', {
    body: { scope: 'agent', name: 'a', instances: ['a'], quotas: { checks_per_second: 1 } },
  })
  const order: string[] = []
  const check = async () => {
    const { status, headers } = await service.call('POST', '/api/honeypots/check/path', {
      key: made.body.key,
      body: { path: '/x' },
    })
    order.push(String(status))
    return headers
  }
  for (let count = 0; count < 210; count++) await check()
  const flood = [check(), check(), check()]
  await service.call('GET', '/healthz').then(() => order.push('healthz'))
  for (const headers of await Promise.all(flood)) {
    expect(headers).toMatchObject({ 'x-error-code': 'quota_exceeded', 'retry-after': '1' })
  }
  expect(order.slice(210)).toEqual(['healthz', '429', '429', '429'])
})
