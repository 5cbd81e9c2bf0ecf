import type { EventList, InstanceList } from '@wardline/contract'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { minuteMs } from '../../clock.ts'
import { openTestService, type TestService } from '../../testing/service.ts'

let service: TestService
let number: number
beforeEach(async () => {
  number = 0
  service = await openTestService()
  await service.services.ruleRunner.run()
  await service.call('POST', '/api/heartbeat', {
    body: { instance_id: 'bot', name: 'Bot', agent_type: 'codex', leaving: true },
  })
  service.services.heardBy.note('bot', 'otlp', service.clock.now())
  await service.services.heardBy.write()
  await run()
})
afterEach(() => service[Symbol.asyncDispose]())

const run = async () => {
  await service.services.logFollower.reconcile()
  await service.services.mismatchWatch.run(true)
}
const report = (by: 'hook' | 'otlp') =>
  service.call('POST', '/api/events', {
    body: {
      ...{ severity: 'info', event_type: 'tool_call', description: 'Bash', instance_id: 'bot' },
      ...{ source: by === 'otlp' ? 'otlp' : 'bot', session_id: number < 30 ? `s${number % 9}` : 'late' },
      metadata: { toolName: 'Bash', callId: `c-${number}`, ...(by === 'otlp' ? { via: 'otlp' } : {}) },
    },
  })
/** Calls ten seconds apart, as these witnesses report them. */
async function calls(count: number, ...by: ('hook' | 'otlp')[]): Promise<void> {
  for (let index = 0; index < count; index++) {
    for (const one of by) await report(one)
    number += 1
    service.clock.advance(10_000)
    await run()
  }
}
const found = async () => {
  const { body } = await service.call<EventList>('GET', '/api/events?limit=1000')
  return body.events.filter(({ event_type }) => event_type.startsWith('report_mismatch')).toReversed()
}
const detail = async () =>
  (await service.call<InstanceList['instances'][number] & { mismatches: object[] }>('GET', '/api/instances/bot')).body

it('reports a removed hook once, critical where a policy restricts the tool, until it reports again', async () => {
  const rules = [{ title: 'No shell', match: { tool: 'Bash' }, decision: 'deny' }]
  const body = { policy: { title: 'P', mode: 'enforce', default: 'allow', rules } }
  expect(await service.call('POST', '/api/policies', { body })).toMatchObject({ status: 201 })
  await calls(30, 'hook', 'otlp')
  expect(await found()).toEqual([])
  await calls(6, 'otlp')
  const [event, ...more] = await found()
  expect(more).toEqual([])
  expect(event).toMatchObject({ severity: 'critical', instance_id: 'bot', by_service: true })
  expect(event!.metadata).toMatchObject({ missing: 'hook', restricted: true })
  expect((await detail()).mismatches).toMatchObject([{ missing: 'hook', severity: 'critical', tools: ['bash'] }])
  await calls(2, 'hook', 'otlp')
  expect((await detail()).mismatches).toEqual([])
  // A hook that comes and goes is one event within an hour.
  await calls(6, 'otlp')
  expect((await detail()).mismatches).toHaveLength(1)
  expect((await found()).map(({ severity }) => severity)).toEqual(['critical', 'info'])
})

it('reports a silent exporter, and its end', async () => {
  await calls(30, 'hook', 'otlp')
  await calls(12, 'hook')
  expect(await found()).toMatchObject([{ severity: 'warning', metadata: { missing: 'otlp' } }])
  await calls(2, 'hook', 'otlp')
  expect(await found()).toMatchObject([{ event_type: 'report_mismatch' }, { event_type: 'report_mismatch_ended' }])
  expect((await detail()).mismatches).toEqual([])
})

it('decides in one process only, and knows after a start what was reported before', async () => {
  await calls(30, 'hook', 'otlp')
  const { MismatchWatch } = await import('./mismatch-watch.ts')
  const other = new MismatchWatch(service.deps, service.services)
  await other.run(false)
  for (let index = 0; index < 6; index++) {
    await calls(1, 'otlp')
    await Promise.all([other.run(true), run()])
  }
  expect(await found()).toHaveLength(1)
  service.clock.advance(minuteMs)
  await Promise.all([other.run(true), run()])
  expect(await found()).toHaveLength(1)
})
