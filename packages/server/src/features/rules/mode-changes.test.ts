import { afterEach, expect, it } from 'vitest'
import { effort } from '../../../../../test-servers/effort.ts'
import { seededChoices } from '../../../../../test-servers/seeded-draws.ts'
import { dayMs, minuteMs } from '../../clock.ts'
import { randomRule, ruleTools } from '../../testing/random-rules.ts'
import { openRuleService, type RuleService, shellRule, toolCall } from '../../testing/rule-service.ts'
import { parseRules } from './language/rule.ts'
import { starterRules } from './starter-rules.ts'

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

/** Closes the runner, and opens another process on the same database, which takes over. */
async function takeOver(on: RuleService): Promise<RuleService> {
  await on.services.ruleRunner.close()
  const other = await service({ dataDir: on.deps.config.dataDir, clock: on.clock })
  await other.runRules()
  return other
}

async function withAgent(): Promise<RuleService> {
  const on = await service()
  await on.runRules()
  await on.call('POST', '/api/heartbeat', { body: { instance_id: 'agent-a', name: 'agent-a' } })
  return on
}

const setMode = async (on: RuleService, id: string, mode: string) =>
  expect((await on.call('POST', `/api/rules/${id}/mode`, { body: { mode } })).status).toBe(200)
const isSuspended = async (on: RuleService) =>
  (await on.rows('select id from instances where suspended = 1')).length === 1
const shell = (on: RuleService) => on.report(toolCall('shell-exec'))
const cooled = { cooldown: '1h', response: [{ action: 'suspend' }] }

// Attack: an agent shows a new tool that harms nobody, and then has 30 days for all others.
it('suspends for the next new tool once a rule that fired in mode observe enforces', async () => {
  const on = await withAgent()
  const { text } = starterRules().find(({ name }) => name === 'first-use-of-a-tool')!
  const { document } = parseRules(text).rules[0]!.rule
  const id = await on.create({ ...document, response: [{ action: 'suspend' }] })
  const uses = async (tool: string, days: number) => {
    on.clock.advance(days * dayMs)
    await on.report(toolCall(tool))
    await on.runRules()
  }
  await uses('file-read', 0)
  await uses('read-notes', 8)
  expect(await on.firings(id)).toHaveLength(1)
  await setMode(on, id, 'enforce')
  await uses('read-notes', 0)
  expect(await isSuspended(on)).toBe(false)
  await uses('shell-exec', 0)
  expect(await isSuspended(on)).toBe(true)
})

it('acts at the next event when a rule with a cooldown is switched to enforce', async () => {
  const on = await withAgent()
  const id = await on.create(shellRule(cooled))
  await shell(on)
  await on.runRules()
  await setMode(on, id, 'enforce')
  await shell(on)
  await on.runRules()
  expect(await isSuspended(on)).toBe(true)
  expect(await on.firings(id)).toHaveLength(2)
  const other = await takeOver(on)
  await shell(other)
  await other.runRules()
  expect(await on.firings(id)).toHaveLength(2)
})

it.each(['before', 'after'])(
  'acts at the next event when the mode changes %s another process takes over',
  async (order) => {
    const on = await withAgent()
    const id = await on.create(shellRule(cooled))
    await shell(on)
    await on.runRules()
    if (order === 'before') await setMode(on, id, 'enforce')
    else {
      await on.services.ruleRunner.close()
      await setMode(on, id, 'enforce')
    }
    const other = await takeOver(on)
    await shell(other)
    await other.runRules()
    expect(await isSuspended(on)).toBe(true)
  },
)

it('keeps a cooldown over a change of the title', async () => {
  const on = await withAgent()
  const id = await on.create(shellRule(cooled))
  await shell(on)
  await on.runRules()
  await on.call('PUT', `/api/rules/${id}`, { body: shellRule({ ...cooled, title: 'Shells' }) })
  await shell(on)
  await on.runRules()
  expect(await on.firings(id)).toHaveLength(1)
  const other = await takeOver(on)
  await shell(other)
  await other.runRules()
  expect(await on.firings(id)).toHaveLength(1)
})

it('fires the same with and without restarts while modes change at random', async () => {
  const seed = Math.floor(Math.random() * 2 ** 31)
  const firingsOf = async (restarts: boolean) => {
    const draws = seededChoices(seed)
    let on = await service()
    await on.runRules()
    const ids: string[] = []
    for (let index = 0; index < 10; index += 1) {
      const tests = {
        match: [[{ metadata: { tool: ruleTools[0], n: 9 } }]],
        no_match: [[{ metadata: { tool: 'other' } }]],
      }
      const counted = { ...randomRule(draws, index), correlation: undefined, tests: undefined, cooldown: '5m' }
      const rule = index < 5 ? counted : randomRule(draws, index)
      const text = { ...rule, detection: { ...rule.detection, a: { tool: ruleTools } } }
      ids.push(await on.create(index < 5 ? { ...text, tests } : text))
    }
    for (let round = 0; round < effort(40, 400); round += 1) {
      const events = Array.from({ length: draws.between(1, 6) }, () => ({
        ...toolCall('x', `agent-${draws.between(0, 2)}`),
        session_id: `s${draws.between(0, 1)}`,
        metadata: { tool: draws.pick(ruleTools), n: draws.between(0, 4) },
      }))
      await on.report(...events)
      on.clock.advance(draws.between(0, minuteMs))
      await on.runRules()
      if (draws.chance(0.5)) await setMode(on, draws.pick(ids.slice(0, 5)), draws.pick(['observe', 'alert', 'enforce']))
      await on.runRules()
      if (draws.chance(0.3) && restarts) on = await takeOver(on)
    }
    const rows = await on.rows<{ title: string; seq: number; mode: string }>(
      `select rules.title, rule_firings.seq, rule_firings.mode from rule_firings
        join rules on rules.id = rule_firings.rule_id order by rules.title, rule_firings.seq`,
    )
    const first = Number((await on.rows<{ seq: number }>('select min(seq) as seq from events'))[0]!.seq)
    return rows.map(({ title, seq, mode }) => `${title} ${Number(seq) - first} ${mode}`)
  }
  const expected = await firingsOf(false)
  expect(await firingsOf(true), `seed ${seed}`).toEqual(expected)
  expect(expected.length).toBeGreaterThan(20)
})
