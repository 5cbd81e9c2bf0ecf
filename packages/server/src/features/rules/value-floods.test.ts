import { ruleLimits } from '@wardline/contract'
import { afterEach, expect, it } from 'vitest'
import { dayMs, minuteMs } from '../../clock.ts'
import { openRuleService, type RuleService, toolCall } from '../../testing/rule-service.ts'

const open: RuleService[] = []
afterEach(async () => {
  for (const service of open.splice(0).reverse()) await service[Symbol.asyncDispose]()
})

async function service(options: Parameters<typeof openRuleService>[0] = {}): Promise<RuleService> {
  const opened = await openRuleService(options)
  open.push(opened)
  return opened
}

const fields = ['instance_id', undefined, 'session_id', 'source']
const others = Array.from({ length: 20 }, (_, index) => `agent-${index}`)
const flooding = 'agent-flood'
/** Values of an event: metadata has room for 1,800. */
const perEvent = 1_800

const newFile = (groupBy: string | undefined) => ({
  title: `New file by ${groupBy ?? 'the fleet'}`,
  severity: 'warning',
  detection: { a: { event_type: 'tool_call' }, condition: 'a' },
  correlation: {
    type: 'new_value',
    field: 'metadata.files',
    timespan: '30d',
    learning: '1d',
    ...(groupBy === undefined ? {} : { 'group-by': [groupBy] }),
  },
  cooldown: '1s',
})

const reads = (instance: string, files: readonly string[], more: object = {}) =>
  toolCall('file-read', instance, { session_id: `of-${instance}`, metadata: { tool: 'file-read', files }, ...more })

let made = 0
const floodEvent = () => {
  made += 1
  return reads(
    flooding,
    Array.from({ length: perEvent }, (_, index) => (made * perEvent + index).toString(36)),
    { session_id: `s${made}` },
  )
}
const flood = (count: number) => Array.from({ length: count }, floodEvent)
const usual = () => others.map((id) => reads(id, ['/etc/hosts', '/app/config']))

const countOf = async (on: RuleService, query: string) => {
  const [row] = await on.rows<{ count: number }>(`select count(*) as count from ${query}`)
  return Number(row!.count)
}

/** Rows of the JSON list among the parameters. */
const rowsIn = (parameters: readonly unknown[]) =>
  parameters.reduce<number>(
    (sum, each) => sum + (String(each).startsWith('[[') ? JSON.parse(String(each)).length : 0),
    0,
  )

/** Four rules that have learned what twenty agents usually read. */
async function learned(): Promise<RuleService> {
  const on = await service()
  await on.runRules()
  for (const id of [...others, flooding]) {
    await on.call('POST', '/api/heartbeat', { body: { instance_id: id, name: id } })
  }
  for (const field of fields) await on.create(newFile(field))
  await on.report(...usual(), reads(flooding, ['/etc/hosts']))
  await on.runRules()
  on.clock.advance(2 * dayMs)
  return on
}

const firingsOf = (on: RuleService, whose: string) => countOf(on, `rule_firings where instance_id ${whose}`)

/** Expects that the flooding agent fills its share of each rule, and no more. */
async function expectBounded(on: RuleService): Promise<void> {
  const stored = await on.rows<{ rule_id: string; count: number }>(
    `select rule_id, count(*) as count from rule_values where reporter = '${flooding}' group by rule_id`,
  )
  expect(stored).toHaveLength(fields.length)
  for (const { count } of stored) {
    expect(Number(count)).toBeGreaterThan(ruleLimits.instanceValues / 2)
    expect(Number(count)).toBeLessThanOrEqual(ruleLimits.instanceValues)
  }
}

// Attack: an agent reports thousands of made-up values, so that rules forget what other agents usually do, fill the memory
// and hold up a kill.
it('keeps what other agents showed during a flood of values, within its limits, and answers kills meanwhile', async () => {
  const on = await learned()
  const killed = others.slice(0, 8)
  const statuses: number[] = []
  for (const id of killed) {
    await on.report(...flood(20))
    const running = on.runRules()
    const { status } = await on.call('POST', `/api/kill/${id}`, { body: { reason: 'test' } })
    statuses.push(status)
    await running
    on.clock.advance(1_000)
  }
  expect(statuses).toEqual(killed.map(() => 200))
  await on.report(...usual())
  await on.runRules()
  expect(await firingsOf(on, `<> '${flooding}'`)).toBe(0)
  expect(await firingsOf(on, `= '${flooding}'`)).toBeGreaterThan(0)
  await expectBounded(on)
  on.clock.advance(minuteMs)
  await on.report(...flood(1))
  await on.runRules()
  const [report] = await on.eventsOf('rule_state_evicted')
  expect(report!.metadata.rules).toMatchObject(fields.map(() => ({ instances: [{ instance_id: flooding }] })))
  expect(JSON.stringify(report!.metadata)).not.toContain(others[0])

  await on.services.ruleRunner.close()
  const other = await service({ dataDir: on.deps.config.dataDir, clock: on.clock })
  await other.runRules()
  await other.report(...usual(), ...flood(30))
  await other.runRules()
  expect(await firingsOf(other, `<> '${flooding}'`)).toBe(0)
  await expectBounded(other)
  other.clock.advance(2_000)
  await other.report(reads(others[9]!, ['/etc/shadow']))
  await other.runRules()
  expect(await firingsOf(other, `= '${others[9]}'`)).toBe(fields.length)
})

// Attack: an agent reports thousands of values at once, which then are one transaction, for which a kill waits.
it('writes what a page of events showed in transactions of a few thousand rows', async () => {
  const on = await learned()
  await on.report(...flood(60))
  const batches: number[] = []
  const { database } = on.deps
  const { batch } = database
  database.batch = (statements, options) => {
    const rows = statements.filter(({ sql }) => /into rule_values|from rule_values/.test(sql))
    batches.push(rows.reduce((sum, { parameters }) => sum + rowsIn(parameters), 0))
    return batch(statements, options)
  }
  await on.runRules()
  database.batch = batch
  expect(batches.reduce((sum, rows) => sum + rows, 0)).toBeGreaterThan(4 * 60 * ruleLimits.eventValues)
  expect(Math.max(...batches)).toBeLessThan(4_000)
})
