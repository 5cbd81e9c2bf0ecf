import type { BacktestLine, RuleBacktest } from '@wardline/contract'
import { afterEach, describe, expect, it } from 'vitest'
import { effort } from '../../../../../test-servers/effort.ts'
import { seededChoices } from '../../../../../test-servers/seeded-draws.ts'
import { dayMs, hourMs, isoTime, minuteMs } from '../../clock.ts'
import { newThenHigh, randomRule, ruleTools } from '../../testing/random-rules.ts'
import { openRuleService, type RuleService, shellRule, toolCall } from '../../testing/rule-service.ts'
import { indexEvents } from '../events/event-index.ts'
import { forgetOldEvents } from '../events/retention.ts'
import { Backtests } from './backtest.ts'
import { finished, LogReplays } from './log-replay.ts'

const open: RuleService[] = []
afterEach(async () => {
  for (const service of open.splice(0).reverse()) await service[Symbol.asyncDispose]()
})
async function service(options: Parameters<typeof openRuleService>[0] = {}): Promise<RuleService> {
  const opened = await openRuleService(options)
  open.push(opened)
  return opened
}

const oldestOf = async (on: RuleService) =>
  isoTime(Number((await on.rows<{ at: number }>('select min(created_at) as at from events'))[0]!.at))

async function backtest(on: RuleService, body: object): Promise<RuleBacktest> {
  const answer = await on.call<RuleBacktest & { error: string }>('POST', '/api/rules/backtest', { body })
  expect(answer.body.error).toBeUndefined()
  return answer.body
}
const refusal = async (on: RuleService, body: object) => {
  const { status, body: answer } = await on.call<{ error: string }>('POST', '/api/rules/backtest', { body })
  return [status, answer.error]
}
const heartbeat = (on: RuleService, id: string) =>
  on.call('POST', '/api/heartbeat', { body: { instance_id: id, name: id } })
const at = (on: RuleService, ms = 0) => isoTime(on.clock.now() + ms)

it('gives the same result as the live rules for random logs', async () => {
  const seed = Math.floor(Math.random() * 2 ** 31)
  const draws = seededChoices(seed)
  const below = (bound: number) => draws.between(0, bound - 1)
  const on = await service({
    env: { WARDLINE_AUTO_SUSPEND_PER_MINUTE: '10000', WARDLINE_AUTO_SUSPEND_FLEET_PERCENT: '100' },
  })
  const { clock } = on
  await on.runRules()
  // The third agent never sends a heartbeat, so a rule cannot suspend it.
  for (const id of ['agent-0', 'agent-1']) await heartbeat(on, id)
  const steps = [
    [{ action: 'call', point: 'none' }, { action: 'suspend' }],
    [{ action: 'alert' }, { action: 'suspend', for: '15m' }, { action: 'suspend' }],
    // No instance has the tag, so these steps suspend no agent.
    [
      { action: 'suspend_tag', tag: 'none' },
      { action: 'suspend_tag', tag: 'none' },
    ],
  ]
  const rules = new Map<string, object>()
  for (let index = 0; index < effort(6, 14); index += 1) {
    const { response, ...body } = {
      response: draws.pick(steps),
      ...(index === 0 ? newThenHigh : randomRule(draws, index)),
    }
    const id = await on.create(body)
    rules.set(id, { ...body, response })
    // A random rule has no tests, without which the API refuses mode enforce, so the mode is set in the database.
    const text = JSON.stringify({ ...body, response })
    await on.execute(
      `update rules set mode = 'enforce', text = '${text}', document = null, changed_at = changed_at + 1 where id = '${id}'`,
    )
  }
  await on.runRules()
  const from = at(on)
  for (let round = 0; round < effort(15, 400); round += 1) {
    await on.report(
      ...Array.from({ length: 1 + below(8) }, () => ({
        ...toolCall('any', `agent-${below(3)}`),
        session_id: `s${below(2)}`,
        metadata: { tool: draws.pick(ruleTools), n: below(5), m: below(200) },
      })),
    )
    await on.runRules()
    clock.advance(below(20) === 0 ? below(26 * hourMs) : below(4) === 0 ? below(90_000) : below(3_000))
  }
  await on.runRules()
  const middle = isoTime(Date.parse(from) + below(clock.now() - Date.parse(from)))
  let total = 0
  let suspended = 0
  for (const [id, document] of rules) {
    const live = await on.rows<{ seq: number; fired_at: number; group_key: string; count: number; events: string }>(
      `select seq, fired_at, group_key, count, events from rule_firings where rule_id = '${id}' order by seq desc`,
    )
    const targets = await on.rows<{ target: string }>(
      `select distinct target from rule_responses where rule_id = '${id}' and action = 'suspend'
        and coalesce(detail, '') not like '%several agents%' and target in (select id from instances)`,
    )
    const message = `seed ${seed}: ${JSON.stringify(document)}`
    for (const asked of [{ id }, { rule: document }]) {
      const found = await backtest(on, { ...asked, from: await oldestOf(on), to: at(on, 1) })
      expect(found, message).toMatchObject({
        data_from: await oldestOf(on),
        firings: live.length,
        suspensions: targets.length,
        evicted: 0,
      })
      const shown = found.samples.map(({ seq, group, count, events }) => ({
        seq,
        group,
        count,
        events: events.map((each) => each.seq),
      }))
      const expected = live.slice(0, 50).map(({ seq, group_key, count, events }) => ({
        seq: Number(seq),
        group: JSON.parse(group_key),
        count: Number(count),
        events: JSON.parse(events).map(([each]: [number]) => each),
      }))
      expect(shown, message).toEqual(expected)
      expect(found.hours.reduce((sum, { count }) => sum + count, 0)).toBe(live.length)
    }
    const part = await backtest(on, { id, from: await oldestOf(on), to: middle })
    expect(part.firings, message).toBe(live.filter(({ fired_at }) => Number(fired_at) < Date.parse(middle)).length)
    total += live.length
    suspended += targets.length
  }
  expect(Math.min(total, suspended), `seed ${seed}`).toBeGreaterThan(0)
  console.log(`backtests: ${total} firings, ${suspended} suspensions, seed ${seed}`)
})

describe('a backtest', () => {
  const burst = shellRule({
    correlation: { type: 'event_count', 'group-by': ['instance_id'], timespan: '1h', condition: { gte: 3 } },
    tests: undefined,
  })

  it('starts with the windows and cooldowns that the rule would have had', async () => {
    const on = await service()
    await on.report(toolCall('shell-exec'), toolCall('shell-exec'))
    on.clock.advance(10 * minuteMs)
    const from = at(on)
    on.clock.advance(minuteMs)
    await on.report(toolCall('shell-exec'), toolCall('shell-exec'))
    const found = await backtest(on, { rule: burst, from, to: at(on, 1) })
    expect(found).toMatchObject({ firings: 1, instances: 1, suspensions: 0, events_read: 4 })
    expect(found.samples).toMatchObject([
      { seq: 3, group: ['agent-a'], instance_id: 'agent-a', count: 3, events: [{ seq: 1 }, { seq: 2 }, { seq: 3 }] },
    ])
    // The earlier firing is outside the range, but its cooldown still applies.
    on.clock.advance(minuteMs)
    const later = at(on)
    on.clock.advance(minuteMs)
    await on.report(toolCall('shell-exec'))
    expect(await backtest(on, { rule: burst, from: later })).toMatchObject({ firings: 0, hours: [], samples: [] })
  })

  it('counts suspensions as in mode enforce, and applies exceptions', async () => {
    const on = await service()
    for (const id of ['agent-a', 'agent-b', 'agent-c']) await heartbeat(on, id)
    await on.call('PUT', '/api/instances/agent-c/tags', { body: { tags: ['pool:x'] } })
    const rule = (...response: object[]) =>
      shellRule({
        mode: 'observe',
        response,
        exceptions: [{ who: { instances: ['agent-b'] }, reason: 'batch', until: '2100-01-01' }],
      })
    const none = { action: 'suspend_tag', tag: 'pool:none' }
    const pool = { action: 'suspend_tag', tag: 'pool:x' }
    const one = { action: 'suspend' }
    const from = at(on)
    await on.report(toolCall('shell-exec'), toolCall('shell-exec', 'agent-b'), toolCall('shell-exec', 'nobody'))
    const counts = async (document: object) => {
      const { firings, instances, suspensions } = await backtest(on, { rule: document, from, to: at(on, 1) })
      return { firings, instances, suspensions }
    }
    const found = { firings: 2, instances: 2 }
    expect(await counts(rule(none, pool))).toEqual({ ...found, suspensions: 1 })
    // `nobody` never sent a heartbeat.
    expect(await counts(rule({ action: 'alert' }, pool, { ...one, for: '5m' }, one))).toEqual({
      ...found,
      suspensions: 2,
    })
    expect(await counts(rule({ action: 'alert' }))).toEqual({ ...found, suspensions: 0 })
    expect(await on.rows('select id from instances where suspended = 1')).toEqual([])
    expect(await on.rows('select seq from rule_firings')).toEqual([])
  })

  it('shows the 50 newest firings and counts all of them by hour', async () => {
    const on = await service()
    const from = at(on)
    for (let round = 0; round < 3; round += 1) {
      await on.report(...Array.from({ length: 60 }, (_, n) => toolCall('shell-exec', `agent-${n}`)))
      on.clock.advance(hourMs)
    }
    const { firings, samples, hours, instances } = await backtest(on, { rule: shellRule(), from })
    expect({ firings, instances, samples: samples.map(({ seq }) => seq) }).toEqual({
      firings: 180,
      instances: 60,
      samples: Array.from({ length: 50 }, (_, n) => 180 - n),
    })
    expect(hours.map(({ count }) => count)).toEqual([60, 60, 60])
  })

  it('sends its progress when the client accepts NDJSON', async () => {
    const on = await service()
    await on.report(toolCall('shell-exec'))
    const body = { rule: shellRule(), from: await oldestOf(on), to: at(on, 1) }
    const { payload, headers, statusCode } = await on.app.inject({
      method: 'POST',
      url: '/api/rules/backtest',
      headers: { accept: 'application/x-ndjson', 'x-monitor-key': (await on.createKey('operator')).key },
      payload: body,
    })
    expect([statusCode, headers['content-type']]).toEqual([200, 'application/x-ndjson'])
    const lines = payload
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as BacktestLine)
    expect(lines).toEqual([
      { progress: { events_read: 0, percent: 0 } },
      { result: expect.objectContaining({ firings: 1, events_read: 1 }) },
    ])
  })

  it('frees its slot when the client disconnects', async () => {
    const on = await service()
    for (let batch = 0; batch < 30; batch += 1) {
      await on.report(...Array.from({ length: 100 }, () => toolCall('shell-exec')))
    }
    const url = await on.app.listen({ host: '127.0.0.1', port: 0 })
    const { key } = await on.createKey('operator')
    const body = JSON.stringify({ rule: shellRule(), from: await oldestOf(on), to: at(on, 1) })
    const headers = { 'x-monitor-key': key, 'content-type': 'application/json', accept: 'application/x-ndjson' }
    const ask = (signal: AbortSignal | null) =>
      fetch(`${url}/api/rules/backtest`, { method: 'POST', headers, body, signal })
    // These scans block the backtest from reading the log until the client has left.
    const blocked = Promise.withResolvers<void>()
    const { database } = on.deps
    const leaving = new AbortController()
    const answer = await ask(leaving.signal)
    const reads = [1, 2].map((n) => database.scan(`test ${n}`, () => blocked.promise))
    leaving.abort()
    await expect(answer.text()).rejects.toThrow()
    blocked.resolve()
    await Promise.all(reads)
    let next = await ask(null)
    while (next.status === 429) next = await ask(null)
    expect(await next.text()).toContain('"events_read":3000')
  })

  it('may start before the first event, but not at a time whose events are deleted', async () => {
    const on = await service()
    const rule = shellRule()
    await on.report(toolCall('shell-exec'))
    const from = isoTime(on.clock.now() - hourMs)
    on.clock.advance(minuteMs)
    expect(await backtest(on, { rule, from })).toMatchObject({ firings: 1, events_read: 1 })
    on.clock.advance(on.deps.config.retentionDays * dayMs)
    await on.report(toolCall('shell-exec'))
    const kept = on.clock.now()
    // An engine that stores events by day deletes whole days of them.
    on.clock.advance(2 * dayMs)
    await indexEvents(on.deps.database)
    await forgetOldEvents(on.deps)
    expect(await refusal(on, { rule, from: isoTime(kept - 1) })).toEqual([
      400,
      `Events before ${isoTime(kept)} are deleted: from may not be earlier.`,
    ])
    expect(await backtest(on, { rule, from: isoTime(kept) })).toMatchObject({ firings: 1 })
  })

  it('refuses an invalid request with a reason', async () => {
    const on = await service()
    const rule = shellRule()
    await on.report(toolCall('shell-exec'))
    const oldest = await oldestOf(on)
    on.clock.advance(hourMs)
    const id = '00000000-0000-7000-8000-000000000001'
    const from = oldest
    expect(await refusal(on, { rule, from, to: from })).toEqual([
      400,
      'from must be before to, both ISO 8601 instants.',
    ])
    expect(await refusal(on, { rule, from, to: isoTime(Date.parse(from) + 91 * 24 * hourMs) })).toEqual([
      400,
      'from and to may be 90 days apart at most.',
    ])
    expect(await refusal(on, { id, from })).toEqual([404, expect.stringContaining(`No rule with id ${id}`)])
    for (const neither of [{ from }, { from, id, rule }]) {
      expect(await refusal(on, neither)).toEqual([
        400,
        'Give either rule (a document or its text) or the id of a stored rule.',
      ])
    }
    expect(await refusal(on, { rule: 'title: x\ndetection: {}', from })).toEqual([
      400,
      expect.stringMatching(/^Line \d/),
    ])
    // A refused request must not keep its slot.
    expect((await backtest(on, { rule, from })).firings).toBe(1)
    const viewer = await on.createKey('viewer')
    expect((await on.call('POST', '/api/rules/backtest', { key: viewer.key, body: { rule, from } })).status).toBe(403)
  })

  it('uses the one slot of its key and one of two slots in total, and frees both', async () => {
    const on = await service()
    await on.report(toolCall('shell-exec'))
    const backtests = new Backtests(on.deps, { logReplays: new LogReplays(on.deps) })
    const asked = { rule: shellRule() as never, from: await oldestOf(on), to: at(on, 1) }
    const begin = (keyId: string, isAbandoned = () => false) => backtests.begin(asked, { keyId, isAbandoned })
    const first = begin('a')
    await expect(begin('a')).rejects.toMatchObject({ code: 'quota_exceeded', retryAfterSeconds: 5 })
    const second = begin('b', () => true)
    await expect(begin('c')).rejects.toMatchObject({ code: 'overloaded', retryAfterSeconds: 5 })
    // The backtest ends when its client has disconnected.
    await expect(finished(await second)).rejects.toMatchObject({ message: 'The caller has disconnected.' })
    expect((await finished(await first)).firings).toBe(1)
    for (const keyId of ['a', 'b', 'a']) expect((await finished(await begin(keyId))).firings).toBe(1)
  })
})
