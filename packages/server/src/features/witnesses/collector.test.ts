import type { EventList } from '@wardline/contract'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { dayMs, hourMs, minuteMs } from '../../clock.ts'
import { openTestService, type TestService } from '../../testing/service.ts'
import { simulateFleet } from '../../testing/simulated-witnesses.ts'
import { mayBeOutage, outageOf, type TelemetryState } from './collector.ts'

const at = (minutes: number) => minutes * minuteMs
const silent = (...minutes: number[]): TelemetryState[] => minutes.map((one) => ({ silentSince: at(one) }))
const shown = (...minutes: number[]): TelemetryState[] => minutes.map((one) => ({ shownAt: at(one) }))

describe('telemetry that is missing', () => {
  it.each<[string, TelemetryState[], number | undefined]>([
    ['of four agents', silent(1, 1, 2, 2), undefined],
    ['of five agents', silent(1, 1, 2, 2, 3), 5],
    ['of five agents of ten at work', [...silent(1, 1, 2, 2, 3), ...shown(4, 4, 4, 4, 4)], undefined],
    ['of five agents of nine at work', [...silent(1, 1, 2, 2, 3), ...shown(4, 4, 4, 4)], 5],
    ['of five agents, while hundreds do not work', [...silent(1, 1, 2, 2, 3), ...shown(...Array(300).fill(0))], 5],
    ['of five agents, one after another in a day', silent(1, 300, 600, 900, 1_200), undefined],
    ['of five agents, and of others for hours', [...silent(1, 2, 300, 301, 302, 302, 303), ...shown(9, 9, 9)], 5],
  ])('%s is an outage or not', (_, states, expected) => {
    expect(outageOf(states)?.silent).toBe(expected)
  })

  it.each<[string, TelemetryState[], number, boolean]>([
    ['of one agent alone', silent(1), 5, false],
    ['of another as well', silent(1, 2), 5, true],
    ['of another as well, but a third is heard', [...silent(1, 2), ...shown(3)], 5, false],
    ['of another as well, for half an hour', silent(1, 2), 31, false],
  ])('%s may begin one or not', (_, states, now, expected) => {
    expect(mayBeOutage(at(1), states, at(now))).toBe(expected)
  })
})

// A longer simulation, 600 agents for 14 days: docs/adr/0093.
it('of a simulated collector is one event for most outages, and few of single agents', () => {
  const collector = [7, 8, 9, 10, 11].map((day) => ({
    start: day * dayMs + 11 * hourMs,
    ms: (4 + 6 * (day - 7)) * minuteMs,
  }))
  const options = { agents: 100, firstSeed: 1, days: 12 }
  const { outages, mismatches } = simulateFleet({ ...options, collector })
  expect(outages.map(({ since }) => Math.floor(since / dayMs))).toEqual([7, 8, 9, 10, 11])
  // Without the comparison of agents, about four for each outage.
  expect(mismatches.length).toBeLessThanOrEqual(outages.length)
  expect(simulateFleet({ ...options, collector: [] })).toEqual({ mismatches: [], outages: [] })
})

describe('a service with agents that share a collector', () => {
  const ids = ['a', 'b', 'c', 'd', 'e', 'f']
  let service: TestService
  let number = 0
  beforeEach(async () => {
    service = await openTestService()
    await service.services.ruleRunner.run()
    for (const id of ids) {
      const body = { instance_id: id, name: id, agent_type: 'codex', leaving: true }
      await service.call('POST', '/api/heartbeat', { body })
      service.services.heardBy.note(id, 'otlp', service.clock.now())
    }
    await service.services.heardBy.write()
    await run()
    await work(30)
  })
  afterEach(() => service[Symbol.asyncDispose]())

  const run = async () => {
    await service.services.logFollower.reconcile()
    await service.services.mismatchWatch.run(true)
  }
  const report = (id: string, via?: 'otlp') => ({
    ...{ severity: 'info', event_type: 'tool_call', description: 'Bash', instance_id: id, source: via ?? id },
    ...{ session_id: `s${number % 9}`, metadata: { toolName: 'Bash', callId: `c-${number}`, ...(via && { via }) } },
  })
  /** Calls of all agents every ten seconds. `isLost`: of which the collector loses the telemetry. */
  async function work(calls: number, isLost: (id: string) => boolean = () => false): Promise<void> {
    for (let index = 0; index < calls; index++) {
      const body = ids.flatMap((id) => [report(id), ...(isLost(id) ? [] : [report(id, 'otlp')])])
      await service.call('POST', '/api/events/batch', { body })
      number += 1
      service.clock.advance(10_000)
      await run()
    }
  }
  const found = async () => {
    const { body } = await service.call<EventList>('GET', '/api/events?limit=1000')
    return body.events.filter(({ event_type }) => event_type.startsWith('report_mismatch')).toReversed()
  }

  it('reports an outage of it once, its end, and only what lasts after it', async () => {
    await work(30, () => true)
    expect(await found()).toMatchObject(
      [{ severity: 'warning', instance_id: null, metadata: { missing: 'otlp', agents: 5, of: 6 } }].map(
        ({ metadata: _, ...event }) => event,
      ),
    )
    await work(25, (id) => id === 'f')
    const [, ended, ...more] = await found()
    expect(ended).toMatchObject({ event_type: 'report_mismatch_ended', instance_id: null, severity: 'info' })
    expect(more).toMatchObject([{ event_type: 'report_mismatch', instance_id: 'f' }])
  })

  it('reports single agents while most are heard', async () => {
    await work(20, (id) => id < 'c')
    expect((await found()).map(({ instance_id }) => instance_id).toSorted()).toEqual(['a', 'b'])
  })

  it('keeps an outage open over a restart, and ends it once telemetry is heard', async () => {
    await work(20, () => true)
    const { MismatchWatch } = await import('./mismatch-watch.ts')
    const other = new MismatchWatch(service.deps, service.services)
    await other.run(true)
    expect(await found()).toHaveLength(1)
    await work(6)
    expect(await found()).toHaveLength(2)
  })
})
