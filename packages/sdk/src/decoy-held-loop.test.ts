import { expect, test } from 'vitest'
import { TestFleet } from './testing/service.ts'

/** Longer than the time of a check and than that of the harmless text after it. */
const heldMs = 700

// Long arguments of other calls hold the event loop while they are split. A call must not pass because its timers run
// before the answers that have arrived meanwhile are read.
test('a call with a decoy is denied although each request finds the event loop held', async () => {
  await using fleet = await TestFleet.open()
  const key = await fleet.plantKey('openai')
  const { monitor } = fleet.monitor({ failMode: 'open', checkTimeoutMs: 400 })
  await monitor.start()
  let requests = 0
  fleet.wire.cut = Object.assign(/(?!)/, {
    test: (request: string) => {
      if (!request.includes('/check/')) return false
      requests += 1
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, heldMs)
      return false
    },
  })
  expect(await monitor.guard({ toolName: 'http-request', args: [`Bearer ${key}`] })).toBeDefined()
  expect(requests).toBeGreaterThan(0)
})
