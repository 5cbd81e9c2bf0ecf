import { expect, it } from 'vitest'
import { effort } from '../../../../../test-servers/effort.ts'
import { seededChoices } from '../../../../../test-servers/seeded-draws.ts'
import { newThenHigh, randomRule, ruleTools } from '../../testing/random-rules.ts'
import { openRuleService, type RuleService, toolCall } from '../../testing/rule-service.ts'
import { readRuleEvents } from './event-log.ts'
import { ruleStates, step } from './language/rule-state.ts'
import { ValueMemory } from './language/value-memory.ts'
import { RuleResponder } from './responder.ts'
import { readRule } from './rule-text.ts'
import { RuleRunner } from './runner.ts'

/** Returns a runner as in another process on the same database. */
function anotherRunner({ deps, services }: RuleService): RuleRunner {
  const ruleResponder = new RuleResponder(deps, services)
  return new RuleRunner(deps, { ...services, ruleResponder })
}

/** A rule that fires for every event. */
const everyEvent = { title: 'Every event', severity: 'info', detection: { a: { tool: ruleTools }, condition: 'a' } }

async function onePass(service: RuleService, text: string): Promise<{ found: object[]; suppressed: number }> {
  const { rule } = readRule(text)
  const state = ruleStates.start(rule)
  const history = new ValueMemory()
  const found: object[] = []
  for (let after = 0; ; ) {
    const events = await readRuleEvents(service.deps.database, 'test', { after, upTo: Number.MAX_SAFE_INTEGER })
    if (events.length === 0) {
      return { found, suppressed: state.budget.takeSuppressed().reduce((sum, [, count]) => sum + count, 0) }
    }
    for (const event of events) {
      for (const { group, seq, count, events: seqs } of step(rule, state, event, history)) {
        found.push({ seq, group: JSON.parse(group), count, events: seqs })
      }
    }
    after = events.at(-1)!.row.seq!
  }
}

it('fires as in one pass over the log when processes end, freeze or lose the lease at random times', async () => {
  const seed = Math.floor(Math.random() * 2 ** 31)
  const draws = seededChoices(seed)
  const below = (bound: number) => draws.between(0, bound - 1)
  await using service = await openRuleService()
  const { clock } = service
  await service.runRules()
  const texts = new Map<string, string>()
  for (let index = 0; index < 14; index += 1) {
    const body = [newThenHigh, everyEvent][index] ?? randomRule(draws, index)
    texts.set(await service.create(body), JSON.stringify(body, null, 2))
  }
  let runner = service.services.ruleRunner
  const frozen: RuleRunner[] = []
  const counts = { ended: 0, frozen: 0, lost: 0, woken: 0 }
  const run = async (each: RuleRunner) => {
    await each.run()
    await each.whenIdle()
  }
  for (let round = 0; round < effort(20, 600); round += 1) {
    // In one of six rounds, and in one at least, one agent floods the rules.
    const [length, agents] = below(6) === 0 || round === 9 ? [100, 1] : [1 + below(8), 3]
    const events = Array.from({ length }, () => ({
      ...toolCall(draws.pick(ruleTools), `agent-${below(agents)}`),
      session_id: `s${below(2)}`,
      metadata: { tool: draws.pick(ruleTools), n: below(5), m: below(200) },
    }))
    await service.report(...events)
    clock.advance(below(4) === 0 ? below(90_000) : below(3_000))
    switch (below(6)) {
      case 0:
        await runner.close()
        runner = anotherRunner(service)
        counts.ended += 1
        break
      case 1:
        frozen.push(runner)
        clock.advance(4_000)
        runner = anotherRunner(service)
        counts.frozen += 1
        break
      case 2:
        await service.execute('update rule_runner set epoch = epoch + 1, leased_until = 0')
        counts.lost += 1
        break
      case 3:
        if (frozen.length > 0) await run(frozen.splice(below(frozen.length), 1)[0]!)
        counts.woken += 1
    }
    await run(runner)
  }
  for (const each of frozen) await run(each)
  clock.advance(10_000)
  await run(runner)
  let firings = 0
  let suppressed = 0
  for (const [id, text] of texts) {
    const expected = await onePass(service, text)
    const found = await service.rows<{ seq: number; group_key: string; count: number; events: string }>(
      `select seq, group_key, count, events from rule_firings where rule_id = '${id}' order by seq`,
    )
    const shown = found.map(({ seq, group_key, count, events }) => ({
      seq: Number(seq),
      group: JSON.parse(group_key),
      count: Number(count),
      events: JSON.parse(events).map(([each]: [number]) => each),
    }))
    expect(shown, `seed ${seed}: ${text}`).toEqual(expected.found)
    firings += shown.length
    const [counted] = await service.rows<{ suppressed: number }>(
      `select coalesce(sum(suppressed), 0) as suppressed from rule_hours where rule_id = '${id}'`,
    )
    expect(Number(counted!.suppressed), `seed ${seed}: ${text}`).toBe(expected.suppressed)
    suppressed += expected.suppressed
  }
  expect(await service.eventsOf('rule_matched').then((list) => list.length)).toBeGreaterThan(0)
  expect(suppressed, `seed ${seed}`).toBeGreaterThan(0)
  const [{ count }] = (await service.rows<{ count: number }>(
    `select count(*) as count from events where event_type = 'rule_matched'`,
  )) as [{ count: number }]
  expect(Number(count)).toBe(firings)
  console.log(
    `rules over restarts: ${firings} firings, ${suppressed} suppressed, ${JSON.stringify(counts)}, seed ${seed}`,
  )
})

it('stores nothing after a write that failed while the next events were processed', async () => {
  await using service = await openRuleService()
  await service.runRules()
  const id = await service.create(everyEvent)
  const place = async () => Number((await service.rows<{ seq: number }>('select seq from rule_runner'))[0]!.seq)
  const stored = async () =>
    (await service.rows<{ instance_id: string }>(`select instance_id from rule_firings where rule_id = '${id}'`)).length
  const before = await place()
  // Only the first of three writes has an agent twice.
  await service.execute('create unique index once on rule_firings (instance_id)')
  await service.report(...Array.from({ length: 600 }, (_, n) => toolCall(ruleTools[0]!, `agent-${n === 1 ? 0 : n}`)))
  await service.runRules()
  expect([await stored(), await place()]).toEqual([0, before])
  await service.execute('drop index once')
  await service.runRules()
  expect(await stored()).toBe(600)
})
