import { type RuleBacktest, type RuleFirings, type RuleList, ruleLimits } from '@wardline/contract'
import { afterEach, expect, it } from 'vitest'
import { isoTime, minuteMs, startOf } from '../../clock.ts'
import { openRuleService, type RuleService, shellRule, toolCall } from '../../testing/rule-service.ts'

const open: RuleService[] = []
afterEach(async () => {
  for (const service of open.splice(0).reverse()) await service[Symbol.asyncDispose]()
})

async function service(options: Parameters<typeof openRuleService>[0] = {}): Promise<RuleService> {
  const opened = await openRuleService({
    env: { WARDLINE_AUTO_SUSPEND_PER_MINUTE: '100', WARDLINE_AUTO_SUSPEND_FLEET_PERCENT: '100' },
    ...options,
  })
  open.push(opened)
  return opened
}

/** Opens a service at the beginning of a minute and registers two agents. */
async function atMinute(): Promise<RuleService> {
  const on = await service()
  await on.runRules()
  nextMinute(on)
  for (const id of ['agent-a', 'agent-b']) {
    await on.call('POST', '/api/heartbeat', { body: { instance_id: id, name: id } })
  }
  return on
}
const nextMinute = ({ clock }: RuleService) => clock.advance(minuteMs - (clock.now() % minuteMs))

/** Closes the runner, and opens another process on the same database, which takes over. */
async function takeOver(on: RuleService): Promise<RuleService> {
  await on.services.ruleRunner.close()
  const other = await service({ dataDir: on.deps.config.dataDir, clock: on.clock })
  await other.runRules()
  return other
}

const max = ruleLimits.minuteFirings
const calls = (count: number, instance = 'agent-a') =>
  Array.from({ length: count }, () => toolCall('shell-exec', instance))
const suspends = { mode: 'enforce', response: [{ action: 'suspend' }] }

const storedOf = async (on: RuleService) => {
  const rows = await on.rows<{ instance_id: string; count: number }>(
    'select instance_id, count(*) as count from rule_firings group by instance_id order by instance_id',
  )
  return Object.fromEntries(rows.map(({ instance_id, count }) => [instance_id, Number(count)]))
}
const suspended = async (on: RuleService) =>
  (await on.rows<{ id: string }>('select id from instances where suspended = 1 order by id')).map(({ id }) => id)
/** Resolves with the suppressed counts, after the second within which they are written. */
const suppressedOf = async (on: RuleService) => {
  on.clock.advance(1_000)
  await on.runRules()
  return (await on.call<RuleList>('GET', '/api/rules')).body.rules.map(({ suppressed_24h }) => suppressed_24h)
}

// Attack: an agent matches a rule with every event, to fill the database and to hide the events of another agent.
it('stores a limited number of firings per agent and minute, and acts on another agent during a flood', async () => {
  const on = await atMinute()
  const id = await on.create(shellRule(suspends))
  await on.report(...calls(500), toolCall('shell-exec', 'agent-b'), ...calls(40))
  await on.runRules()
  expect(await storedOf(on)).toEqual({ 'agent-a': max, 'agent-b': 1 })
  expect(await suspended(on)).toEqual(['agent-a', 'agent-b'])
  const [{ count }] = (await on.rows<{ count: number }>(
    `select count(*) as count from events where event_type = 'rule_matched'`,
  )) as [{ count: number }]
  expect(Number(count)).toBe(max + 1)
  expect(await suppressedOf(on)).toEqual([540 - max])
  const { body } = await on.call<RuleFirings>('GET', `/api/rules/${id}/firings`)
  expect(body.hours).toMatchObject([{ count: max + 1, suppressed: 540 - max }])
  expect(await on.deps.metrics.registry.metrics()).toContain(
    `wardline_rule_firings_suppressed_total{mode="enforce"} ${540 - max}`,
  )
  nextMinute(on)
  await on.report(...calls(1))
  await on.runRules()
  expect(await storedOf(on)).toEqual({ 'agent-a': max + 1, 'agent-b': 1 })
})

it('continues with the budgets of the previous process after a takeover', async () => {
  const on = await atMinute()
  await on.create(shellRule())
  await on.report(...calls(max - 10))
  await on.runRules()
  const second = await takeOver(on)
  await second.report(...calls(30), ...calls(1, 'agent-b'))
  await second.runRules()
  expect(await storedOf(second)).toEqual({ 'agent-a': max, 'agent-b': 1 })
  const third = await takeOver(second)
  await third.report(...calls(5))
  await third.runRules()
  expect(await storedOf(third)).toEqual({ 'agent-a': max, 'agent-b': 1 })
  expect(await suppressedOf(third)).toEqual([25])
})

it('keeps a separate budget for events by the service about an agent after a takeover', async () => {
  const on = await atMinute()
  await on.create(shellRule({ detection: { any: { instance_id: 'agent-a' }, condition: 'any' }, tests: undefined }))
  const find = ({ services: { ingest } }: RuleService) =>
    ingest.store([
      ingest.own({ severity: 'warning', event_type: 'anomaly', description: 'An anomaly', instance_id: 'agent-a' }),
    ])
  await find(on)
  await on.report(...calls(max - 1))
  await on.runRules()
  const other = await takeOver(on)
  await other.report(...calls(10))
  await find(other)
  await other.runRules()
  expect(await storedOf(other)).toEqual({ 'agent-a': max + 2 })
  expect(await suppressedOf(other)).toEqual([9])
})

it('acts at the next event when a rule is switched to enforce during a flood', async () => {
  const on = await atMinute()
  const id = await on.create(shellRule({ response: suspends.response }))
  await on.report(...calls(max + 5))
  await on.runRules()
  expect(await suspended(on)).toEqual([])
  expect((await on.call('POST', `/api/rules/${id}/mode`, { body: { mode: 'enforce' } })).status).toBe(200)
  await on.report(...calls(1))
  await on.runRules()
  expect(await suspended(on)).toEqual(['agent-a'])
  const other = await takeOver(on)
  await other.report(...calls(max))
  await other.runRules()
  expect(await storedOf(other)).toEqual({ 'agent-a': 2 * max })
  expect(await suppressedOf(other)).toEqual([6])
})

it.each([
  { detection: { shell: { event_type: 'tool_call', tool: 'shell-*' }, condition: 'shell' } },
  { mode: 'alert' },
])('keeps the suppressed count when the rule is changed to %j before the count is written', async (change) => {
  const on = await atMinute()
  const id = await on.create(shellRule())
  await on.report(...calls(max))
  await on.runRules()
  await on.report(...calls(7))
  await on.runRules()
  expect((await on.call('PUT', `/api/rules/${id}`, { body: shellRule(change) })).status).toBe(200)
  await on.runRules()
  expect(await suppressedOf(on)).toEqual([7])
})

it('keeps the suppressed count when a write fails', async () => {
  const on = await atMinute()
  await on.create(shellRule())
  await on.report(...calls(max))
  await on.runRules()
  await on.report(...calls(7))
  await on.runRules()
  await on.execute('alter table rule_hours rename to away')
  on.clock.advance(1_000)
  await expect(on.runRules()).rejects.toThrow()
  await on.execute('alter table away rename to rule_hours')
  expect(await suppressedOf(on)).toEqual([7])
  expect(await storedOf(on)).toEqual({ 'agent-a': max })
})

it('gives the same result in a backtest, also from the middle of a minute', async () => {
  const on = await atMinute()
  const begin = startOf(on.clock.now(), minuteMs)
  const id = await on.create(shellRule())
  await on.report(...calls(max - 20))
  on.clock.advance(20_000)
  await on.report(...calls(50), ...calls(1, 'agent-b'))
  await on.runRules()
  const live = await on.rows<{ seq: number; fired_at: number }>('select seq, fired_at from rule_firings order by seq')
  expect(live).toHaveLength(max + 1)
  for (const [from, suppressed] of [
    [begin, 30],
    [begin + 10_000, 30],
  ] as const) {
    const body = { id, from: isoTime(from), to: isoTime(begin + minuteMs) }
    const answer = await on.call<RuleBacktest>('POST', '/api/rules/backtest', { body })
    const expected = live.filter(({ fired_at }) => Number(fired_at) >= from)
    expect(answer.body).toMatchObject({ firings: expected.length, suppressed })
  }
})

it('gives the same result in a backtest when windows from before the minute used up the budget', async () => {
  const on = await atMinute()
  const begin = on.clock.now()
  const perSession = { type: 'event_count', 'group-by': ['session_id'], timespan: '40s', condition: { gte: 2 } }
  const id = await on.create(shellRule({ correlation: perSession, cooldown: '1s', tests: undefined }))
  const sessions = calls(max).map((call, index) => ({ ...call, session_id: `s${index}` }))
  for (const second of [50, 70, 106]) {
    on.clock.advance(begin + second * 1_000 - on.clock.now())
    await on.report(...sessions)
    await on.runRules()
  }
  expect(await storedOf(on)).toEqual({ 'agent-a': max })
  const body = { id, from: isoTime(begin + 105_000), to: isoTime(begin + 110_000) }
  const answer = await on.call<RuleBacktest>('POST', '/api/rules/backtest', { body })
  expect(answer.body).toMatchObject({ firings: 0, suppressed: max })
})
