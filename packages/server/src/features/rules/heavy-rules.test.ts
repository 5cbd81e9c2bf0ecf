import type { RuleBacktest } from '@wardline/contract'
import { afterEach, expect, it } from 'vitest'
import { isoTime, minuteMs } from '../../clock.ts'
import { openRuleService, type RuleService, toolCall } from '../../testing/rule-service.ts'

/** The service guarantees 20 ms of CPU time of its thread. The guard leaves room for a loaded machine. */
const guardMs = 250

const open: RuleService[] = []
afterEach(async () => {
  for (const service of open.splice(0).reverse()) await service[Symbol.asyncDispose]()
})
async function service(options: Parameters<typeof openRuleService>[0] = {}): Promise<RuleService> {
  const opened = await openRuleService(options)
  open.push(opened)
  return opened
}

const threadMs = (): number => {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1_000
}

/** Longest CPU time of a turn of the event loop until the work is done, and the number of turns. */
async function turnsOf(work: () => Promise<unknown>): Promise<{ longest: number; turns: number }> {
  let isOver = false
  let longest = 0
  let turns = 0
  const watched = (async () => {
    while (!isOver) {
      const startedAt = threadMs()
      await new Promise(setImmediate)
      longest = Math.max(longest, threadMs() - startedAt)
      turns += 1
    }
  })()
  await work()
  isOver = true
  await watched
  return { longest, turns }
}

const many = <Item>(count: number, item: (index: number) => Item): Item[] =>
  Array.from({ length: count }, (_, index) => item(index))

const heavyRule = (index: number) => ({
  title: `Heavy ${index}`,
  severity: 'warning',
  detection: {
    text: { 'metadata.a|contains': [...many(480, (value) => `aaaaa${index}-${value}`), 'needle'] },
    pattern: { 'metadata.a|re': many(18, (value) => `[ab]+${index}x${value}`) },
    condition: 'text or pattern',
  },
  correlation: { type: 'event_count', 'group-by': ['instance_id'], timespan: '10m', condition: { gte: 2 } },
  cooldown: '1s',
})
const rules = 41

/** Stores rules as an earlier version did, which knew no limit of all rules together. */
async function storeHeavy(on: RuleService): Promise<void> {
  const light = { ...heavyRule(0), detection: { one: { event_type: 'none' }, condition: 'one' } }
  for (const index of Array(rules).keys()) await on.create({ ...light, title: `Heavy ${index}` })
  for (const index of Array(rules).keys()) {
    await on.execute(
      `update rules set text = '${JSON.stringify(heavyRule(index))}', cost = null, document = null, changed_at = changed_at + 1
        where title = 'Heavy ${index}'`,
    )
  }
  await on.runRules()
}

const call = (text: string) => toolCall('shell', 'agent-a', { metadata: { a: text } })
const filler = 'a'.repeat(16_000)

// Attack: rules within all limits, and an agent that reports the text for which they cost most. A kill had to wait for
// seconds, because an event went through all rules at once.
it('many costly rules hold the event loop neither live nor after a takeover, and find the same', async () => {
  const on = await service()
  await storeHeavy(on)
  const begin = on.clock.now()
  const burst = [filler, `needle ${filler}`, filler]
  await on.report(...burst.map(call))
  const live = await turnsOf(on.runRules)
  await on.services.ruleRunner.close()
  const other = await service({ dataDir: on.deps.config.dataDir, clock: on.clock })
  const taken = await turnsOf(other.runRules)
  on.clock.advance(2_000)
  await other.report(call(`${filler} needle`), call(filler))
  await other.runRules()
  const found = await on.rows<{ rule_id: string; seq: number; count: number }>(
    'select rule_id, seq, count from rule_firings order by seq, rule_id',
  )
  const marks = found.map(({ seq, count }) => [Number(seq), Number(count)])
  expect(marks).toEqual(many(rules, () => [4, 2]))
  const body = { id: found[0]!.rule_id, from: isoTime(begin - minuteMs), to: isoTime(on.clock.now() + minuteMs) }
  const tested = await turnsOf(async () => {
    const { firings } = (await on.call<RuleBacktest>('POST', '/api/rules/backtest', { body })).body
    expect(firings).toBe(1)
  })
  console.log('held by heavy rules:', JSON.stringify({ live, taken, tested }))
  for (const { longest } of [live, taken, tested]) expect(longest).toBeLessThan(guardMs)
  // Each of the burst takes many turns of about a millisecond.
  expect(live.turns).toBeGreaterThan(burst.length * rules)
})

it('rules that earlier versions stored count for the limit of all rules once a process runs them', async () => {
  const on = await service()
  await storeHeavy(on)
  const refused = await on.call<{ error: string }>('POST', '/api/rules', { body: heavyRule(rules) })
  expect(refused.status).toBe(400)
  expect(refused.body.error).toMatch(
    /^The rule costs an event of 16 KiB up to 8\.\d ms, and the other rules \d{3}\.\d ms/,
  )
})
