import type { RuleBacktest } from '@wardline/contract'
import { afterEach, expect, it } from 'vitest'
import { dayMs, isoTime, minuteMs } from '../../clock.ts'
import { claimLease } from '../../db/lease.ts'
import { openRuleService, type RuleService, toolCall } from '../../testing/rule-service.ts'
import { logged } from '../../testing/rules.ts'
import { atOnce } from '../../testing/work.ts'
import { WorkBudget } from '../../work-turns.ts'
import { allStatesBytes } from './language/rule-memory.ts'
import { rebuildStates } from './rebuild.ts'
import { runnerLease } from './runner-queries.ts'
import { newRunningRule, RunningSet } from './running-rule.ts'

const open: RuleService[] = []
afterEach(async () => {
  for (const service of open.splice(0).reverse()) await service[Symbol.asyncDispose]()
})

async function service(options: Parameters<typeof openRuleService>[0] = {}): Promise<RuleService> {
  const opened = await openRuleService(options)
  open.push(opened)
  await opened.runRules()
  return opened
}

/** Closes the runner, and opens another process on the same database, which takes over. */
async function takeOver(on: RuleService): Promise<RuleService> {
  await on.services.ruleRunner.close()
  return service({ dataDir: on.deps.config.dataDir, clock: on.clock })
}

const firedOf = async (on: RuleService, id: string) => (await on.firings(id)).map(({ instance_id }) => instance_id)
const detection = { a: { event_type: 'tool_call' }, condition: 'a' }

/** Values of an event: metadata has room for 1,800. */
const perEvent = 1_800
const reads = (instance: string, from: number, count: number, session = 's') => {
  const files = Array.from({ length: count }, (_, index) => (from + index).toString(36))
  return toolCall('file-read', instance, { session_id: session, metadata: { tool: 'file-read', files } })
}

const manyFiles = {
  title: 'Many files',
  severity: 'warning',
  detection,
  correlation: {
    type: 'value_count',
    field: 'metadata.files',
    'group-by': ['instance_id', 'session_id'],
    timespan: '1h',
    condition: { gte: 2_000 },
  },
}

// Attack: an agent fills the memory of the rules with values under made-up sessions, so that the process ends, or forgets
// what another agent did.
it('forgets windows of the flooding agent alone, names it, and does the same after a takeover and in a backtest', async () => {
  const on = await service()
  const id = await on.create(manyFiles)
  const begin = on.clock.now()
  await on.report(reads('agent-b', 0, perEvent), reads('agent-c', 0, perEvent))
  for (let batch = 0; batch < 4; batch += 1) {
    const sessions = Array.from({ length: 40 }, (_, index) => `s${batch}-${index}`)
    await on.report(...sessions.map((session) => reads('agent-flood', 0, perEvent, session)))
    await on.runRules()
  }
  await on.report(reads('agent-b', perEvent, 200))
  on.clock.advance(minuteMs)
  await on.runRules()
  expect(await firedOf(on, id)).toEqual(['agent-b'])
  const [report] = await on.eventsOf('rule_state_evicted')
  expect(report!.metadata).toMatchObject({ rules: [{ rule: id, instances: [{ instance_id: 'agent-flood' }] }] })
  expect(JSON.stringify(report!.metadata)).not.toMatch(/agent-[bc]/)
  const other = await takeOver(on)
  await other.report(reads('agent-c', perEvent, 200))
  await other.runRules()
  expect(await firedOf(other, id)).toEqual(['agent-c', 'agent-b'])
  const body = { rule: manyFiles, from: isoTime(begin), to: isoTime(on.clock.now() + 1) }
  const answer = await other.call<RuleBacktest>('POST', '/api/rules/backtest', { body })
  expect(answer.body).toMatchObject({ firings: 2, instances: 2 })
  expect(answer.body.evicted).toBeGreaterThan(0)
})

// Attack: as above, with rules that are all within their limits, so that each process that takes over ends as well.
it('keeps no more of all rules together than a process has room for, live and while it rebuilds them', async () => {
  const on = await service()
  for (let batch = 0; batch < 4; batch += 1) {
    const sessions = Array.from({ length: 40 }, (_, index) => `s${batch}-${index}`)
    await on.report(...sessions.map((session) => reads('agent-flood', 0, perEvent, session)))
  }
  const row = {
    severity: 'warning',
    mode: 'observe',
    version: 1,
    changed_at: 0,
    list_changes: 0,
    text: JSON.stringify(manyFiles),
  } as const
  const rules = Array.from({ length: 8 }, (_, index) => newRunningRule({ ...row, id: `r${index}`, title: 'x' }, 0))
  const bytesOf = (list: typeof rules) => list.reduce((sum, { state }) => sum + state.memory.bytes, 0)
  on.clock.advance(runnerLease.leaseMs)
  const { lease } = (await claimLease(on.deps, runnerLease, 'test'))!
  await rebuildStates(on.deps, rules, { lease, seq: 160 })
  expect(bytesOf(rules)).toBeLessThanOrEqual(allStatesBytes)
  expect(bytesOf(rules)).toBeGreaterThan(allStatesBytes * 0.9)
  // Two rules leave, and others come.
  const next = [...rules.slice(2), ...[8, 9, 10].map((n) => newRunningRule({ ...row, id: `r${n}`, title: 'x' }, 0))]
  const set = new RunningSet(next)
  for (let seq = 161; seq < 300; seq += 1) {
    const files = Array.from({ length: perEvent }, (_, index) => (seq + index).toString(36))
    const more = { event_type: 'tool_call', instance_id: 'agent-flood', session_id: `s${seq}` }
    atOnce(set.take(logged({ seq, at: seq, ...more, metadata: { files } }), new WorkBudget(Number.MAX_SAFE_INTEGER)))
  }
  expect(bytesOf(next)).toBeLessThanOrEqual(allStatesBytes)
})

const newDomain = (more: object = {}) => ({
  title: 'New domain',
  severity: 'warning',
  detection,
  correlation: { type: 'new_value', field: 'metadata.domain', 'group-by': ['event_type'], timespan: '30d' },
  cooldown: '1s',
  response: [{ action: 'suspend' }],
  mode: 'enforce',
  tests: {
    match: [
      [
        { event_type: 'tool_call', metadata: { domain: 'a' } },
        { event_type: 'tool_call', metadata: { domain: 'b' }, after: '2d' },
      ],
    ],
    no_match: [[{ event_type: 'tool_call', metadata: { domain: 'a' } }]],
  },
  ...more,
})
const visits = (instance: string, domain: string | string[]) => toolCall('web', instance, { metadata: { domain } })

// Attack: an agent shows what others use, and makes the service forget it by a flood, so that a rule suspends another one.
it('keeps what several agents showed during a flood of one, over a takeover, and suspends nobody for it', async () => {
  const on = await service()
  for (const id of ['agent-1', 'agent-2']) {
    await on.call('POST', '/api/heartbeat', { body: { instance_id: id, name: id } })
  }
  const id = await on.create(newDomain())
  await on.report(visits('agent-1', ['kv.corp.example', 'ntp.corp.example']))
  await on.report(visits('agent-2', 'kv.corp.example'))
  await on.runRules()
  on.clock.advance(2 * dayMs)
  const other = await takeOver(on)
  await other.report(visits('agent-2', 'ntp.corp.example'))
  for (let batch = 0; batch < 3; batch += 1) {
    const lists = Array.from({ length: 40 }, (_, event) =>
      Array.from({ length: 100 }, (_, index) => `${batch}-${event}-${index}.example`),
    )
    await other.report(...lists.map((list) => visits('agent-1', list)))
    await other.runRules()
  }
  const [row] = await other.rows<{ count: number }>(`select count(*) as count from rule_values`)
  expect(Number(row!.count)).toBeLessThan(10_100)
  await other.report(visits('agent-2', 'kv.corp.example'), visits('agent-2', 'ntp.corp.example'))
  await other.runRules()
  const third = await takeOver(other)
  await third.report(visits('agent-2', 'kv.corp.example'), visits('agent-2', 'ntp.corp.example'))
  await third.runRules()
  expect(new Set(await firedOf(third, id))).toEqual(new Set(['agent-1']))
  // What is new for the group depends on what others showed: nobody is suspended for it.
  third.clock.advance(2_000)
  await third.report(visits('agent-2', 'new.example'))
  await third.runRules()
  const [newest] = await third.firings(id)
  expect(newest).toMatchObject({ instance_id: 'agent-2', responses: [{ action: 'suspend', result: 'skipped' }] })
})

it('notes a rule that suspends for new values of a group that instances share', async () => {
  const on = await service()
  const notesOf = async (groupBy: string[]) => {
    const correlation = { type: 'new_value', field: 'metadata.domain', 'group-by': groupBy, timespan: '30d' }
    const body = { rule: JSON.stringify(newDomain({ correlation })) }
    return (await on.call<{ notes: object[] }>('POST', '/api/rules/test', { body })).body.notes
  }
  expect(await notesOf(['event_type'])).toHaveLength(1)
  expect(await notesOf(['event_type', 'instance_id'])).toEqual([])
})

// Attack: an agent completes the firing of a group that it shares with others, so that the group is silent for them.
it('fires for each agent of a group that agents share, and keeps each cooldown over a takeover', async () => {
  const on = await service()
  const id = await on.create({
    title: 'Two calls from an address',
    severity: 'warning',
    detection,
    correlation: { type: 'event_count', 'group-by': ['session_id'], timespan: '10m', condition: { gte: 2 } },
  })
  const call = (instance: string) => toolCall('web', instance, { session_id: 'shared' })
  await on.report(call('agent-1'), call('agent-1'), call('agent-1'))
  await on.runRules()
  await on.report(call('agent-2'), call('agent-2'), call('agent-1'))
  await on.runRules()
  expect(await firedOf(on, id)).toEqual(['agent-2', 'agent-1'])
  const other = await takeOver(on)
  await other.report(call('agent-1'), call('agent-2'), call('agent-3'))
  await other.runRules()
  expect(await firedOf(other, id)).toEqual(['agent-3', 'agent-2', 'agent-1'])
})

// An older version stored values at any length; their agent must not count as one that shows something new.
it('knows values that an older version stored with long keys, and stores them with short ones', async () => {
  const on = await service()
  const domain = `${'long-'.repeat(30)}.example`
  const id = await on.create(newDomain())
  await on.report(visits('agent-1', domain))
  await on.runRules()
  const stored = () =>
    on.rows<{ group_key: string; value: string }>('select group_key, value from rule_values order by value')
  const short = await stored()
  expect(short.every(({ group_key, value }) => group_key.length <= 32 && value.length <= 32)).toBe(true)
  const long = JSON.stringify([domain])
  await on.execute(`update rule_values set value = '${long}' where value <> ''`)
  on.clock.advance(2 * dayMs)
  const other = await takeOver(on)
  await other.report(visits('agent-2', domain))
  await other.runRules()
  expect(await firedOf(other, id)).toEqual([])
  expect(await stored()).toEqual(short)
})

it('stores the time of a value again once it moved by a 64th of the timespan, and its newness and reporters at once', async () => {
  const on = await service()
  await on.create(newDomain({ correlation: { ...newDomain().correlation, timespan: '64m', learning: '1m' } }))
  const stored = async () => {
    const rows = await on.rows<{ seen_at: number; reporter: string }>(
      `select seen_at, reporter from rule_values where value = '["a.example"]'`,
    )
    return rows.map(({ seen_at, reporter }) => [Number(seen_at), reporter])
  }
  const visitAfter = async (ms: number, instance = 'agent-1') => {
    on.clock.advance(ms)
    await on.report(visits(instance, 'a.example'))
    const at = on.clock.now()
    await on.runRules()
    // What changed is written once a second.
    on.clock.advance(1_000)
    await on.runRules()
    return at
  }
  const first = await visitAfter(0)
  expect(await stored()).toEqual([[first, 'agent-1']])
  await visitAfter(minuteMs - 2_000)
  expect(await stored()).toEqual([[first, 'agent-1']])
  const second = await visitAfter(0)
  expect(await stored()).toEqual([[second, 'agent-1']])
  const third = await visitAfter(0, 'agent-2')
  expect(await stored()).toEqual([[third, '*']])
  const fourth = await visitAfter(64 * minuteMs + 1)
  expect(await stored()).toEqual([[fourth, '*']])
})
