import { readFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { effort } from '../../test-servers/effort.ts'
import { anEvent, createKey, newInstance } from '../fleet.ts'
import { type LoadResult, load, totalStatuses } from '../load.ts'
import { isExternal, needsOwnProcess, type Service, startService, until } from '../service.ts'
import type { CreatedKey } from '../shapes.ts'

const overloadMs = effort(2_000, 30_000)
/** Only at night: ordinary runs share the machine with other tests. */
const killWithinMs = effort(Infinity, 250)
const maxGrowthBytes = 256 * 1024 * 1024
const batch = JSON.stringify(Array.from({ length: 1_000 }, () => anEvent({ instance_id: 'flooder-1' })))

function residentBytes(service: Service): number {
  const status = readFileSync(`/proc/${service.pid()}/status`, 'utf8')
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)![1]) * 1024
}

const isLinux = process.platform === 'linux'

// Kills must arrive even while five times as many events come in as the disk can store.
test.skipIf(isExternal || !isLinux)(
  isExternal
    ? needsOwnProcess
    : isLinux
      ? 'overload is refused with a time to retry, within bounded memory, and delays no kill'
      : 'needs /proc to see the memory of a process',
  async () => {
    const service = await startService()
    try {
      const target = await newInstance(service, 'target')
      const { body: unlimited } = await service.call<CreatedKey>('POST', '/api/keys', {
        body: {
          scope: 'agent',
          name: 'unlimited',
          instances: ['flooder-*'],
          quotas: { events_per_second: null, bytes_per_second: null },
        },
      })
      const limited = await createKey(service, { scope: 'agent', instances: ['flooder-1'] })
      const idle = residentBytes(service)
      let peak = idle
      let isOver = false
      const end = performance.now() + overloadMs
      const goesOn = () => performance.now() < end
      const flood = (key: string, path: string, body: string, connections: number) =>
        load(service, { path, key, body, connections, goesOn })

      const kills: number[] = []
      const operator = (async () => {
        while (!isOver) {
          const started = performance.now()
          const answer = await service.call('POST', `/api/kill/${target}`, { body: { reason: 'overload' } })
          expect(answer.status, answer.text).toBe(200)
          kills.push(performance.now() - started)
          expect((await service.call('POST', `/api/resume/${target}`)).status).toBe(200)
          peak = Math.max(peak, residentBytes(service))
          await pause(20)
        }
      })()
      // The floods fill their shares of the queue, not the share of another key.
      const quietKey = await createKey(service, { scope: 'agent', instances: ['quiet'] })
      let quietEvents = 0
      const quiet = (async () => {
        while (!isOver) {
          const severity = quietEvents % 2 === 0 ? 'info' : 'breach'
          const body = anEvent({ instance_id: 'quiet', severity })
          const answer = await service.call('POST', '/api/events', { key: quietKey, body })
          expect(answer.status, answer.text).toBe(201)
          quietEvents += 1
          await pause(20)
        }
      })()
      // Queues as many rows as five full queues of one key, from two keys, in addition to single events.
      const results: LoadResult[] = await Promise.all([
        flood(unlimited.key, '/api/events/batch', batch, 25),
        flood(service.key, '/api/events/batch', batch, 25),
        flood(limited, '/api/events', JSON.stringify(anEvent({ instance_id: 'flooder-1' })), 16),
      ])
      isOver = true
      await Promise.all([operator, quiet])
      expect(quietEvents).toBeGreaterThan(0)

      const statuses = totalStatuses(results)
      expect(
        Object.keys(statuses)
          .map(Number)
          // A connection whose response takes half a minute is closed, which may happen on a busy machine.
          .filter((status) => ![200, 201, 429, 503, ...effort([0], [])].includes(status)),
      ).toEqual([])
      expect(statuses[503], JSON.stringify(statuses)).toBeGreaterThan(0)
      expect(results.reduce((sum, { withoutRetry }) => sum + withoutRetry, 0)).toBe(0)
      expect(peak - idle).toBeLessThanOrEqual(maxGrowthBytes)
      const sorted = kills.toSorted((left, right) => left - right)
      expect(sorted[Math.floor(sorted.length * 0.99)]).toBeLessThanOrEqual(killWithinMs)

      await until(
        'an ordinary answer',
        () => service.call('POST', '/api/events', { body: anEvent() }),
        ({ status }) => status === 201,
      )
      console.log(
        `overload: ${JSON.stringify(statuses)}, kill p50 ${Math.round(sorted[Math.floor(sorted.length / 2)]!)} ms, p99 ${Math.round(sorted[Math.floor(sorted.length * 0.99)]!)} ms of ${kills.length}, ${quietEvents} quiet events, memory +${Math.round((peak - idle) / 1024 / 1024)} MiB`,
      )
    } finally {
      await service.stop()
    }
  },
)
