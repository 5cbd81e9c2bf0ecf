import type { EventRow, FleetStatus } from '@wardline/contract'
import { toolCallEvent } from '@wardline/sdk/events'
import { afterEach, describe, expect, it } from 'vitest'
import { dayMs, hourMs, minuteMs } from '../../clock.ts'
import { openRuleService, type RuleService, shellRule } from '../../testing/rule-service.ts'

let open: RuleService[] = []
afterEach(async () => {
  for (const service of open) await service[Symbol.asyncDispose]()
  open = []
})

interface Scene {
  service: RuleService
  key: string
  single: string
  counting: string
}
async function scene(options: Parameters<typeof openRuleService>[0] = {}): Promise<Scene> {
  const service = await openRuleService(options)
  open.push(service)
  const { key } = await service.createKey('agent', ['bot'])
  const correlation = { type: 'event_count', 'group-by': ['instance_id'], timespan: '1h', condition: { gte: 2 } }
  return {
    ...{ service, key },
    single: await service.create(shellRule({ title: 'Each', tests: undefined })),
    counting: await service.create(shellRule({ title: 'Two', correlation, tests: undefined })),
  }
}

const args = { command: 'cat notes.txt' }
/** A call as the hook reports it. */
const hook = async ({ service, key }: Scene, callId: string | undefined = 'c-1', more: object = {}) => {
  const event = toolCallEvent({ toolName: 'shell-exec', params: args, sessionId: 's' }, 'bot') as EventRow
  const body = { ...event, metadata: { ...event.metadata, callId, ...more } }
  const { type = event.event_type } = more as { type?: string }
  const answer = await service.call('POST', '/api/events', { key, body: { ...body, event_type: type } })
  expect(answer.status).toBe(201)
}
/** The same as an exporter sends it. */
async function otlp({ service, key }: Scene, callId: string | null = 'c-1', more: Record<string, string> = {}) {
  const values = { 'event.name': 'tool_result', tool_name: 'shell-exec', success: 'true', ...more }
  const attributes = Object.entries({ ...values, ...(callId && { tool_use_id: callId }) }).map(
    ([name, stringValue]) => {
      return { key: name, value: { stringValue } }
    },
  )
  const timeUnixNano = `${service.clock.now()}000000`
  const reply = await service.app.inject({
    ...{ method: 'POST', url: '/v1/logs', headers: { authorization: `Bearer ${key}` } },
    payload: { resourceLogs: [{ scopeLogs: [{ logRecords: [{ timeUnixNano, attributes }] }] }] },
  })
  expect(reply.statusCode, reply.body).toBe(200)
}

/** What each part of the service counts. */
async function counted({ service, single, counting }: Scene) {
  await service.services.logFollower.reconcile()
  await service.runRules()
  const { body } = await service.call<FleetStatus>('GET', '/api/status')
  const { body: list } = await service.call<{ events: EventRow[] }>('GET', '/api/events?instance_id=bot')
  const own = list.events.filter(({ by_service }) => !by_service)
  return {
    stored: own.length,
    seconds: own.filter(({ metadata }) => metadata?.second_witness === true).length,
    calls: body.toolCalls['shell-exec'],
    info: body.stats.info - list.events.filter((event) => event.by_service && event.severity === 'info').length,
    each: (await service.firings(single)).length,
    two: (await service.firings(counting)).length,
  }
}
const once = { stored: 2, seconds: 1, calls: 1, info: 1, each: 1, two: 0 }
const twice = { stored: 2, seconds: 0, calls: 2, info: 2, each: 2, two: 1 }

describe('a call that a hook and telemetry report', () => {
  it('counts once, also when telemetry sends it again', async () => {
    const on = await scene()
    await hook(on)
    await otlp(on)
    expect(await counted(on)).toEqual(once)
    await otlp(on)
    expect(await counted(on)).toEqual(once)
    // The first minute of the window is counted from the events themselves.
    on.service.clock.advance(dayMs - 20_000)
    expect((await counted(on)).info).toBe(1)
  })

  // Who holds the key of the agent could else hide a call from rules by naming it in telemetry first.
  it('counts twice when telemetry came first: the report of the hook always counts', async () => {
    const on = await scene()
    await otlp(on)
    await hook(on)
    expect(await counted(on)).toEqual(twice)
  })

  it('counts once when telemetry comes just before the report, and twice once that is not waited for any more', async () => {
    const on = await scene()
    await hook(on, 'c-0')
    await otlp(on, 'c-0')
    const sent = otlp(on)
    await hook(on)
    await sent
    expect(await counted(on)).toMatchObject({ stored: 4, seconds: 2, calls: 2, info: 2, each: 2 })
    await otlp(on, 'c-2')
    await hook(on, 'c-2')
    expect(await counted(on)).toMatchObject({ stored: 6, seconds: 2, calls: 4 })
  })

  it('counts once after a restart, and in another process than the one that stored the report of the hook', async () => {
    const on = await scene()
    await hook(on)
    const other = await openRuleService({ dataDir: on.service.deps.config.dataDir, clock: on.service.clock })
    open.unshift(other)
    await otlp({ ...on, service: other })
    expect(await counted(on)).toEqual(once)
  })

  it('counts once when it was reported since this process knows the agent', async () => {
    const on = await scene()
    await otlp(on, 'c-0', { tool_name: 'Other' })
    await hook(on)
    await otlp(on)
    expect(await counted(on)).toMatchObject({ stored: 3, seconds: 1, calls: 1 })
  })

  it.each<[string, (on: Scene) => Promise<void>]>([
    ['has another id', (on) => otlp(on, 'c-2')],
    ['has no id', (on) => otlp(on, null)],
    [
      'comes more than an hour later',
      async (on) => {
        on.service.clock.advance(hourMs + minuteMs)
        await otlp(on)
      },
    ],
  ])('is two calls when telemetry %s', async (_, send) => {
    const on = await scene()
    await hook(on)
    await send(on)
    expect(await counted(on)).toMatchObject({ stored: 2, seconds: 0 })
  })

  it('is two calls when the hook reported it for another agent', async () => {
    const on = await scene()
    const { key } = await on.service.createKey('agent', ['other'])
    const body = { severity: 'info', source: 'other', event_type: 'tool_call', description: 'x', instance_id: 'other' }
    const metadata = { toolName: 'shell-exec', callId: 'c-1' }
    await on.service.call('POST', '/api/events', { key, body: { ...body, metadata } })
    await otlp(on)
    expect(await counted(on)).toMatchObject({ stored: 1, seconds: 0, calls: 2 })
  })

  // What a client reports must not hide what telemetry shows beyond it.
  it.each<[string, Record<string, string>, object, boolean]>([
    ['of the same tool in another case', { tool_name: 'Shell-Exec' }, {}, true],
    ['of another tool', { tool_name: 'code-exec' }, {}, false],
    ['of a tool server without its name', { tool_name: 'mcp_tool' }, { toolName: 'mcp__db__query' }, true],
    ['without a name of a tool of no server', { tool_name: 'mcp_tool' }, {}, false],
    ['with the same arguments', { tool_input: JSON.stringify(args) }, {}, true],
    ['with other arguments', { tool_input: JSON.stringify({ command: 'rm -rf /' }) }, {}, false],
    ['that failed', { success: 'false' }, {}, true],
    ['that failed where the hook denied it', { success: 'false' }, { type: 'tool_blocked' }, true],
    ['that ran where the hook denied it', {}, { type: 'tool_blocked' }, false],
    ['that a person denied', { decision: 'reject' }, {}, false],
    ['that was denied where the hook denied it', { decision: 'reject' }, { type: 'tool_blocked' }, true],
  ])('%s is the second report or not', async (_, telemetry, reported, isSecond) => {
    const on = await scene({ env: { WARDLINE_TELEMETRY_CONTENT: 'arguments' } })
    await hook(on, 'c-1', reported)
    await otlp(on, 'c-1', telemetry)
    expect(await counted(on)).toMatchObject({ stored: 2, seconds: isSecond ? 1 : 0 })
  })

  it('with its result is not counted, but rules see it: the hook reports results apart', async () => {
    const on = await scene({ env: { WARDLINE_TELEMETRY_CONTENT: 'results' } })
    await hook(on)
    await otlp(on, 'c-1', { output: 'text' })
    expect(await counted(on)).toMatchObject({ seconds: 1, calls: 1, info: 1, each: 2 })
  })
})

// Rules do not see the second report, so only the service may say what it is.
it('the mark of a second report is removed from what callers report', async () => {
  const on = await scene()
  await hook(on, 'c-1', { second_witness: true })
  await hook(on, 'c-2', { second_witness: true, via: 'otlp' })
  const body = { severity: 'info', source: 'otlp', event_type: 'tool_call', description: 'x', instance_id: 'bot' }
  const metadata = { toolName: 'shell-exec', second_witness: true, via: 'otlp' }
  expect(
    (await on.service.call('POST', '/api/events/batch', { key: on.key, body: [{ ...body, metadata }] })).status,
  ).toBe(200)
  expect(await counted(on)).toEqual({ stored: 3, seconds: 0, calls: 3, info: 3, each: 3, two: 1 })
})
