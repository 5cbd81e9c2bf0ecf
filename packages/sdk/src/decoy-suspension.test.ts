import { createClient } from '@wardline/contract'
import { expect, test } from 'vitest'
import { effort } from '../../../test-servers/effort.ts'
import { agentId, eventually, streamOpen, TestFleet } from './testing/service.ts'

const rounds = effort(60, 500)

test(`the service aborts an agent that touches a decoy, ${rounds} times`, async () => {
  await using fleet = await TestFleet.open({
    WARDLINE_AUTO_SUSPEND: 'decoy',
    WARDLINE_AUTO_SUSPEND_PER_MINUTE: '10000',
  })
  const key = await fleet.plantKey('aws')
  const { monitor, heard } = fleet.monitor()
  await monitor.start()
  await streamOpen(monitor)
  // Checks the key outside the monitor, like a tool that guards itself.
  const call = createClient({ url: fleet.wire.url, key: fleet.agentKey })
  const passed: number[] = []
  for (let round = 0; round < rounds; round++) {
    const { signal } = monitor
    const aborted = new Promise<number>((resolve) =>
      signal.addEventListener('abort', () => resolve(performance.now()), { once: true }),
    )
    const asked = performance.now()
    const [at, answer] = await Promise.all([aborted, call('checkKey', { body: { key } })])
    expect(answer).toEqual({ matched: true })
    passed.push(at - asked)
    await fleet.resume(agentId)
    await eventually(() => expect(monitor.signal.aborted).toBe(false))
  }
  expect(heard.suspend.at(-1)?.reason).toMatch(/^Decoy [\w-]{36} was touched \(event [\w-]{36}\)$/)
  const sorted = passed.toSorted((a, b) => a - b)
  const at = (share: number) => sorted[Math.min(rounds - 1, Math.floor(rounds * share))]!.toFixed(1)
  console.log(
    `decoy to AbortSignal: ${rounds} times, p50 ${at(0.5)} ms, p95 ${at(0.95)} ms, p99 ${at(0.99)} ms, maximum ${at(1)} ms`,
  )
})
