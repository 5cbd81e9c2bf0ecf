import type { RuleBacktest, Suspension } from '@wardline/contract'
import { afterEach, expect, it } from 'vitest'
import { isoTime, minuteMs } from '../../clock.ts'
import { openRuleService, type RuleService, shellRule, toolCall } from '../../testing/rule-service.ts'

const open: RuleService[] = []
afterEach(async () => {
  for (const service of open.splice(0).reverse()) await service[Symbol.asyncDispose]()
})

/** Opens a service with four agents, of which at most half may be suspended automatically. */
async function service(agents = ['agent-a', 'agent-b', 'agent-c', 'agent-d']): Promise<RuleService> {
  const opened = await openRuleService({
    env: {
      WARDLINE_AUTO_SUSPEND_FLEET_PERCENT: '50',
      WARDLINE_AUTO_SUSPEND_FLEET_MIN: '1',
      WARDLINE_ALERT_ALLOW_CIDRS: '203.0.113.0/24',
    },
  })
  open.push(opened)
  await opened.runRules()
  for (const id of agents) await opened.call('POST', '/api/heartbeat', { body: { instance_id: id, name: id } })
  return opened
}

const enforced = (response: object[], more: object = {}) => shellRule({ mode: 'enforce', response, ...more })
const suspended = async (on: RuleService) =>
  (await on.rows<{ id: string }>('select id from instances where suspended = 1 order by id')).map(({ id }) => id)
const suspensions = async (on: RuleService, id: string) =>
  (await on.call<{ suspensions: Suspension[] }>('GET', `/api/instances/${id}/suspensions`)).body.suspensions
const responsesOf = async (on: RuleService, id: string) => (await on.firings(id)).map(({ responses }) => responses)

async function fire(on: RuleService, instance = 'agent-a'): Promise<void> {
  await on.report(toolCall('shell-exec', instance))
  await on.runRules()
}

it.each(['observe', 'alert'])('suspend no agent in mode %s', async (mode) => {
  const on = await service()
  const id = await on.create(shellRule({ mode, response: [{ action: 'alert' }, { action: 'suspend' }] }))
  await fire(on)
  expect(await suspended(on)).toEqual([])
  expect(await responsesOf(on, id)).toEqual([
    mode === 'observe' ? [] : [{ action: 'alert', target: null, result: 'done', detail: null }],
  ])
})

it('send no alert in mode observe, and one with the severity of the rule in mode alert', async () => {
  const on = await service()
  const channel = {
    name: 'hook',
    type: 'slack',
    settings: { url: 'https://203.0.113.7/services/x' },
    min_severity: 'info',
  }
  expect((await on.call('POST', '/api/alert-channels', { body: channel })).status).toBe(201)
  const alerts = async () =>
    on.rows(`select severity, event_type, instance_id from alerts where event_type = 'rule_matched'`)
  await on.create(shellRule())
  await fire(on)
  expect(await alerts()).toEqual([])
  await on.create(shellRule({ mode: 'alert', severity: 'critical' }))
  await fire(on)
  expect(await alerts()).toEqual([{ severity: 'critical', event_type: 'rule_matched', instance_id: 'agent-a' }])
})

it('alert only the channels that the rule names', async () => {
  const on = await service()
  const names = ['people', 'machines']
  for (const name of names) {
    const settings = { url: 'https://203.0.113.7/services/x' }
    await on.call('POST', '/api/alert-channels', { body: { name, type: 'slack', settings, min_severity: 'info' } })
  }
  await on.create(shellRule({ mode: 'alert', response: [{ action: 'alert', channel: 'people' }] }))
  await on.create(shellRule({ mode: 'alert', title: 'Again', response: [{ action: 'alert', channel: 'gone' }] }))
  await fire(on)
  await on.services.dispatcher.run()
  const planned = await on.rows<{ name: string; group_name: string }>(
    `select alert_channels.name, alert_groups.name as group_name from alert_groups
      join alert_channels on alert_channels.id = alert_groups.channel_id where alert_groups.name like 'rule_matched%'`,
  )
  expect(planned.map(({ name }) => name)).toEqual(['people'])
})

it('suspend the instance with a reason that names the rule, its version and the event', async () => {
  const on = await service()
  const id = await on.create(enforced([{ action: 'suspend' }]))
  await fire(on)
  const [firing] = await on.firings(id)
  const reason = `Rule: Shell (rule ${id}, version 1, event ${firing!.event_id})`
  expect(await suspensions(on, 'agent-a')).toMatchObject([
    { reason, rule_id: id, event_id: firing!.event_id, by: 'system' },
  ])
  const { body } = await on.call<{ entries: object[] }>('GET', '/api/audit?action=instance.suspend')
  expect(body.entries).toMatchObject([
    { target: 'agent-a', reason, after: { rule_id: id, event_id: firing!.event_id } },
  ])
  expect(firing!.responses).toEqual([{ action: 'suspend', target: 'agent-a', result: 'done', detail: null }])
  // A later event skips the suspended agent, and must not suspend it again after a person has resumed it.
  await fire(on)
  expect((await responsesOf(on, id))[0]).toMatchObject([{ result: 'skipped' }])
  await on.call('POST', '/api/resume/agent-a')
  await on.services.ruleRunner.run()
  expect(await suspended(on)).toEqual([])
})

it('end a timed suspension when its time is over, but no later suspension by a person', async () => {
  const on = await service()
  await on.create(enforced([{ action: 'suspend', for: '15m' }]))
  await fire(on)
  await fire(on, 'agent-b')
  await on.call('POST', '/api/resume/agent-b')
  await on.call('POST', '/api/kill/agent-b', { body: { reason: 'by hand' } })
  on.clock.advance(14 * minuteMs)
  await on.runRules()
  expect(await suspended(on)).toEqual(['agent-a', 'agent-b'])
  on.clock.advance(2 * minuteMs)
  await on.runRules()
  expect(await suspended(on)).toEqual(['agent-b'])
  const { body } = await on.call<{ entries: object[] }>('GET', '/api/audit?action=instance.resume&target=agent-a')
  expect(body.entries).toMatchObject([{ actor: 'system', reason: expect.stringMatching(/^The suspension by rule /) }])
})

it('use the next step when the group fires again within a day', async () => {
  const on = await service()
  const id = await on.create(
    enforced([{ action: 'suspend', for: '1m' }, { action: 'suspend', for: '1h' }, { action: 'suspend' }]),
  )
  const lasts = async (minutes: number) => {
    on.clock.advance(minutes * minuteMs)
    await on.runRules()
    return (await suspended(on)).length === 1
  }
  await fire(on)
  expect(await lasts(2)).toBe(false)
  await fire(on)
  expect(await lasts(2)).toBe(true)
  expect(await lasts(60)).toBe(false)
  await fire(on)
  expect(await lasts(60 * 24)).toBe(true)
  expect(await on.firings(id)).toHaveLength(3)
})

it('make a timed suspension permanent when a permanent one follows', async () => {
  const on = await service()
  await on.create(enforced([{ action: 'suspend', for: '15m' }]))
  await fire(on)
  await on.create(enforced([{ action: 'suspend' }], { title: 'Shell again' }))
  await fire(on)
  on.clock.advance(60 * minuteMs)
  await on.runRules()
  expect(await suspended(on)).toEqual(['agent-a'])
})

it('are limited by the brake', async () => {
  const on = await service()
  const id = await on.create(enforced([{ action: 'suspend' }]))
  await on.report(...['a', 'b', 'c', 'd'].map((name) => toolCall('shell-exec', `agent-${name}`)))
  await on.runRules()
  expect(await suspended(on)).toHaveLength(2)
  expect(
    (await responsesOf(on, id))
      .flat()
      .map(({ result }) => result)
      .sort(),
  ).toEqual(['done', 'done', 'refused', 'refused'])
  expect(await on.eventsOf('brake_engaged')).toHaveLength(1)
})

it('suspend the instances with a tag, and resume them after the time', async () => {
  const on = await service()
  for (const name of ['a', 'b'])
    await on.call('PUT', `/api/instances/agent-${name}/tags`, { body: { tags: ['team:x'] } })
  const id = await on.create(enforced([{ action: 'suspend_tag', tag: 'team:x', for: '15m' }]))
  await fire(on, 'agent-d')
  expect(await suspended(on)).toEqual(['agent-a', 'agent-b'])
  expect(await responsesOf(on, id)).toMatchObject(
    [[{ target: 'team:x', result: 'done', detail: /^2 suspended/ }]].map((list) =>
      list.map((each) => ({ ...each, detail: expect.stringMatching(each.detail) })),
    ),
  )
  on.clock.advance(16 * minuteMs)
  await on.runRules()
  expect(await suspended(on)).toEqual([])
})

it('record each response that was skipped or failed', async () => {
  const on = await service()
  const id = await on.create(
    enforced([{ action: 'suspend' }, { action: 'suspend_tag', tag: 'none' }, { action: 'call', point: 'none' }]),
  )
  await fire(on, 'nobody')
  await on.report({ ...toolCall('shell-exec'), instance_id: undefined })
  await on.runRules()
  expect((await responsesOf(on, id)).map((list) => list.map(({ result }) => result))).toEqual([
    ['skipped', 'skipped', 'skipped'],
    ['skipped', 'skipped', 'skipped'],
  ])
  await fire(on)
  expect((await responsesOf(on, id))[0]![2]).toMatchObject({ target: 'none', result: 'failed' })
})

// A process that crashes between the firing and the response leaves the response pending.
it('are done by the next process after a crash between firing and response', async () => {
  const on = await service()
  const id = await on.create(enforced([{ action: 'suspend' }]))
  const { autoSuspension } = on.services
  const { answer } = autoSuspension
  autoSuspension.answer = () => Promise.reject(new Error('the process is gone'))
  await fire(on)
  expect(await suspended(on)).toEqual([])
  expect(await responsesOf(on, id)).toMatchObject([[{ result: 'pending' }]])
  autoSuspension.answer = answer
  const other = await openRuleService({ dataDir: on.deps.config.dataDir, clock: on.clock })
  open.push(other)
  on.clock.advance(4_000)
  await other.runRules()
  expect(await suspended(on)).toEqual(['agent-a'])
  await on.runRules()
  await other.runRules()
  expect(await suspensions(on, 'agent-a')).toHaveLength(1)
  expect(await responsesOf(on, id)).toMatchObject([[{ result: 'done' }]])
})

it('ignore an agent with an exception until the exception ends', async () => {
  const on = await service()
  const until = new Date(on.clock.now() + 10 * minuteMs).toISOString()
  const id = await on.create(
    enforced([{ action: 'suspend' }], {
      exceptions: [{ who: { instances: ['agent-*'] }, reason: 'Migration', until }],
    }),
  )
  await fire(on)
  expect(await on.firings(id)).toEqual([])
  on.clock.advance(11 * minuteMs)
  await fire(on)
  expect(await suspended(on)).toEqual(['agent-a'])
})

// Attack: an agent shares a session or an address with another one, and reports all but the last event of a rule itself, so
// that the other one is suspended.
it.each([
  ['event_count', { 'group-by': ['session_id'], condition: { gte: 3 } }],
  ['value_count', { 'group-by': ['session_id'], condition: { gte: 3 }, field: 'metadata.n' }],
  ['temporal', { 'group-by': ['session_id'], rules: ['a', 'b', 'c'] }],
  ['temporal_ordered', { 'group-by': ['session_id'], rules: ['a', 'b', 'c'] }],
  [
    'event_count',
    {
      'group-by': ['instance_id'],
      condition: { gte: 1 },
      rules: [
        {
          correlation: {
            type: 'event_count',
            'group-by': ['session_id'],
            timespan: '5m',
            condition: { gte: 3 },
            rules: ['a or b or c'],
          },
        },
      ],
    },
  ],
] as const)('suspend nobody for events of several agents: %s %j', async (type, correlation) => {
  const on = await service()
  const rule = {
    title: 'Shared',
    severity: 'warning',
    mode: 'enforce',
    detection: Object.fromEntries([...'abc'].map((n) => [n, { event_type: 'tool_call', 'metadata.n': n }])),
    correlation: { type, timespan: '5m', ...correlation },
    cooldown: '1s',
    response: [{ action: 'suspend' }, { action: 'call', point: 'none' }],
    tests: undefined,
  }
  if (type === 'event_count' || type === 'value_count') Object.assign(rule.detection, { condition: '1 of them' })
  const id = await on.create({ ...rule, mode: 'observe' })
  const text = JSON.stringify(rule)
  await on.execute(
    `update rules set mode = 'enforce', text = '${text}', document = null, changed_at = changed_at + 1 where id = '${id}'`,
  )
  await on.runRules()
  const step = async (n: string, instance: string) => {
    await on.report(toolCall('x', instance, { session_id: 's', metadata: { n } }))
    await on.runRules()
    on.clock.advance(2_000)
  }
  for (const [n, instance] of [
    ['a', 'agent-a'],
    ['b', 'agent-a'],
    ['c', 'agent-b'],
  ] as const)
    await step(n, instance)
  expect(await suspended(on)).toEqual([])
  const detail = 'The firing depends on events of several agents: a person decides about whom to suspend.'
  const skipped = { target: expect.anything(), result: 'skipped', detail }
  expect((await responsesOf(on, id))[0]).toMatchObject([
    { action: 'suspend', ...skipped },
    { action: 'call', ...skipped },
  ])
  const [event] = await on.eventsOf('rule_matched')
  expect(event).toMatchObject({
    severity: 'warning',
    description: `Rule matched: Shared. Nobody was suspended. ${detail}`,
  })
  const body = { rule, from: isoTime(on.clock.now() - minuteMs), to: isoTime(on.clock.now()) }
  const backtest = await on.call<RuleBacktest>('POST', '/api/rules/backtest', { body })
  expect(backtest.body).toMatchObject({ firings: 1, suspensions: 0 })
  // Once the events of the other agent have left the window, the agent is suspended for its own.
  on.clock.advance(6 * minuteMs)
  await on.call('POST', '/api/heartbeat', { body: { instance_id: 'agent-b', name: 'agent-b' } })
  for (const n of 'abc') await step(n, 'agent-b')
  expect(await suspended(on)).toEqual(['agent-b'])
})
