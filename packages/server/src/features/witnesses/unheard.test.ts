import type { EventList, InstanceDetail, Mismatch } from '@wardline/contract'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { dayMs, hourMs, minuteMs } from '../../clock.ts'
import { openTestService, type TestService } from '../../testing/service.ts'

let service: TestService
let number: number
beforeEach(async () => {
  number = 0
  service = await openTestService()
  await service.services.ruleRunner.run()
})
afterEach(() => service[Symbol.asyncDispose]())

const run = async () => {
  await service.services.heardBy.write()
  await service.services.logFollower.reconcile()
  await service.services.mismatchWatch.run(true)
}
const beat = (more: object) =>
  service.call('POST', '/api/heartbeat', { body: { instance_id: 'bot', name: 'Bot', ...more } })
const senders = {
  otlp: { agent_type: 'otlp' },
  hook: { agent_type: 'codex', leaving: true },
  sdk: { agent_type: 'mine', boot_id: 'b-1' },
  mcp: { agent_type: 'mcp-proxy', boot_id: 'b-1' },
  supervisor: { supervisor: { isolated: false } },
  gateway: { agent_type: 'model-gateway' },
}
/** An agent of which only telemetry is heard. */
async function observe(): Promise<void> {
  await beat(senders.otlp)
  service.services.heardBy.note('bot', 'otlp', service.clock.now())
  await run()
}
const call = (more: object = {}) =>
  service.call('POST', '/api/events', {
    body: {
      ...{ severity: 'info', event_type: 'tool_call', description: 'Bash', instance_id: 'bot', source: 'otlp' },
      metadata: { toolName: 'Bash', callId: `c-${++number}`, via: 'otlp' },
      ...more,
    },
  })
async function calls(count: number, more: object = {}): Promise<void> {
  for (let index = 0; index < count; index++) {
    await call(more)
    service.services.heardBy.note('bot', 'otlp', service.clock.now())
    service.clock.advance(15_000)
    await run()
  }
}
const policy = (mode: string, whom: object = {}, decision = 'deny', tool = 'Bash') =>
  service.call<{ id: string }>('POST', '/api/policies', {
    body: {
      policy: {
        title: `P ${++number}`,
        mode,
        for: whom,
        default: 'allow',
        rules: [{ title: 'R', match: { tool }, decision }],
      },
    },
  })
const found = async () => {
  const { body } = await service.call<EventList>('GET', '/api/events?limit=1000')
  return body.events.filter(({ event_type }) => event_type.startsWith('report_mismatch')).toReversed()
}
const mismatches = async () =>
  (await service.call<InstanceDetail & { mismatches: Mismatch[] }>('GET', '/api/instances/bot')).body.mismatches

describe('an agent that only telemetry shows', () => {
  it.each<[string, Parameters<typeof policy> | undefined, string | undefined]>([
    ['no policy', undefined, undefined],
    ['a policy for other agents', ['enforce', { agents: ['other-*'] }], undefined],
    ['a policy for a tag that it does not have', ['enforce', { tags: ['prod'] }], undefined],
    ['a policy that is observed', ['observe'], 'warning'],
    ['a policy that is enforced and denies its tool', ['enforce'], 'critical'],
    ['a policy that is enforced and asks about its tool', ['enforce', {}, 'ask'], 'critical'],
    ['a policy that is enforced and denies another tool', ['enforce', {}, 'deny', 'Write'], 'warning'],
  ])('with %s', async (_, given, severity) => {
    if (given) expect((await policy(...given)).status).toBe(201)
    await observe()
    await calls(4)
    expect((await found()).map((event) => event.severity)).toEqual(severity ? [severity] : [])
    if (!severity) return
    expect((await found())[0]!.metadata).toMatchObject({ missing: 'client', tools: { bash: 3 } })
    expect(await mismatches()).toMatchObject([{ missing: 'client', severity, tools: ['bash'] }])
  })

  it.each([
    ['hook', undefined],
    ['sdk', undefined],
    ['mcp', undefined],
    ['supervisor', 'critical'],
    ['gateway', 'critical'],
  ] as const)('and is also heard by %s is reported as %s', async (witness, severity) => {
    await policy('enforce')
    await observe()
    await beat(senders[witness])
    await calls(6)
    expect((await found()).map((event) => event.severity)).toEqual(severity ? [severity] : [])
  })

  it('is reported after its third call and the grace of a hook, and once until a hook is heard', async () => {
    await policy('enforce')
    await observe()
    await calls(2)
    expect(await found()).toEqual([])
    await calls(20)
    expect(await found()).toHaveLength(1)
    await beat(senders.hook)
    await run()
    service.clock.advance(minuteMs)
    await run()
    expect(await found()).toMatchObject([{ severity: 'critical' }, { description: 'Its hook or SDK is heard' }])
    expect(await mismatches()).toEqual([])
  })

  it('is reported again after silence, when its calls go on', async () => {
    await policy('enforce')
    await observe()
    await calls(4)
    service.clock.advance(dayMs + hourMs)
    await run()
    expect(await found()).toMatchObject([{}, { description: 'Nothing is heard of it any more' }])
    await calls(4)
    expect(await found()).toHaveLength(3)
  })

  it('is no longer reported when no policy applies, and becomes critical when one restricts a tool', async () => {
    const { body } = await policy('observe')
    await observe()
    await calls(4)
    await service.call('PUT', `/api/policies/${body.id}/mode`, { body: { mode: 'enforce' } })
    await calls(8)
    expect((await found()).map(({ severity }) => severity)).toEqual(['warning', 'critical'])
    await service.call('DELETE', `/api/policies/${body.id}`)
    service.clock.advance(minuteMs)
    await run()
    expect((await found()).at(-1)).toMatchObject({ description: 'No policy applies to it any more' })
  })

  it('whose hook was heard more than a day ago is reported: what removed it came before this process', async () => {
    await policy('enforce')
    await beat(senders.hook)
    await run()
    service.clock.advance(dayMs + hourMs)
    await observe()
    await calls(4)
    expect(await found()).toMatchObject([{ severity: 'critical', metadata: { missing: 'client' } }])
  })

  // The report of a hook without a heartbeat, such as by an integration of the operator.
  it('whose own client reports calls is not reported', async () => {
    await policy('enforce')
    await observe()
    for (let index = 0; index < 6; index++) {
      await calls(1)
      await call({ source: 'bot', metadata: { toolName: 'Bash' } })
    }
    expect(await found()).toEqual([])
  })

  it('and only sent calls within ten seconds is not reported, since one loss is an accident', async () => {
    await policy('enforce')
    await observe()
    for (let index = 0; index < 100; index++) await call()
    service.clock.advance(minuteMs)
    await run()
    expect(await found()).toEqual([])
  })
})
