import { setTimeout as pause } from 'node:timers/promises'
import type { RuleFirings } from '@wardline/contract'
import { afterEach, expect, it } from 'vitest'
import { openRuleService, type RuleService, shellRule, toolCall } from '../../testing/rule-service.ts'
import { RuleResponder } from './responder.ts'
import { RuleRunner } from './runner.ts'

const open: RuleService[] = []
afterEach(async () => {
  for (const service of open.splice(0).reverse()) await service[Symbol.asyncDispose]()
})

/** Opens a service that is closed after the test, the last one first. */
async function service(options: Parameters<typeof openRuleService>[0] = {}): Promise<RuleService> {
  const opened = await openRuleService(options)
  open.push(opened)
  return opened
}
const twinOf = ({ deps, clock }: RuleService) => service({ dataDir: deps.config.dataDir, clock })

const burst = {
  correlation: { type: 'event_count', 'group-by': ['instance_id'], timespan: '1m', condition: { gte: 3 } },
  tests: undefined,
}

it('records the firings of a rule in mode observe without responses', async () => {
  const on = await service()
  const id = await on.create(shellRule())
  await on.report(toolCall('file-read'), toolCall('shell-exec'), toolCall('shell-exec', 'agent-b'))
  await on.runRules()
  const found = (await on.call<RuleFirings>('GET', `/api/rules/${id}/firings`)).body
  expect(found.firings).toMatchObject([
    { seq: 3, group: ['agent-b'], mode: 'observe', version: 1, responses: [], events: [{ seq: 3 }] },
    { seq: 2, group: ['agent-a'], instance_id: 'agent-a', count: 1 },
  ])
  expect(found.hours).toMatchObject([{ count: 2 }])
  const [newest] = found.firings
  expect(await on.eventsOf('rule_matched')).toMatchObject([
    {
      id: newest!.matched_event_id,
      severity: 'info',
      instance_id: 'agent-b',
      by_service: true,
      metadata: { rule: id, version: 1, mode: 'observe', events: [newest!.event_id] },
    },
    {},
  ])
  const list = await on.call<{ rules: object[]; runner: object }>('GET', '/api/rules')
  expect(list.body).toMatchObject({ rules: [{ firings_24h: 2, last_fired_at: expect.any(String) }] })
})

it('matches a new rule only with later events, and not with the events of its firings', async () => {
  const on = await service()
  await on.runRules()
  await on.report(toolCall('shell-exec'))
  await on.runRules()
  const id = await on.create(
    shellRule({ detection: { any: { 'event_type|exists': true }, condition: 'any' }, tests: undefined }),
  )
  for (let round = 0; round < 3; round += 1) {
    await on.report(toolCall('shell-exec'))
    await on.runRules()
    await on.runRules()
  }
  expect(await on.firings(id)).toHaveLength(3)
})

it('applies a new rule, mode or deletion to every event after the response', async () => {
  const on = await service()
  await on.runRules()
  const { body } = await on.call<{ id: string }>('POST', '/api/rules', { body: shellRule() })
  await on.report(toolCall('shell-exec'))
  await on.services.ruleRunner.whenIdle()
  expect((await on.call('POST', `/api/rules/${body.id}/mode`, { body: { mode: 'alert' } })).status).toBe(200)
  await on.report(toolCall('shell-exec'))
  await on.services.ruleRunner.whenIdle()
  expect((await on.call('DELETE', `/api/rules/${body.id}`)).status).toBe(200)
  await on.report(toolCall('shell-exec'))
  await on.runRules()
  expect(await on.eventsOf('rule_matched')).toMatchObject([
    { metadata: { mode: 'alert' } },
    { metadata: { mode: 'observe' } },
  ])
})

it('continues with the windows of another process after its lease ends', async () => {
  const on = await service()
  const id = await on.create(shellRule(burst))
  await on.report(toolCall('shell-exec'), toolCall('shell-exec'), toolCall('shell-exec', 'agent-b'))
  await on.runRules()
  const other = await twinOf(on)
  await other.runRules()
  await other.report(toolCall('shell-exec'))
  await other.runRules()
  // The first process still has the lease.
  expect(await on.firings(id)).toHaveLength(0)
  on.clock.advance(4_000)
  await other.runRules()
  const expected = [{ group: ['agent-a'], count: 3, events: [{ seq: 1 }, { seq: 2 }, { seq: 4 }] }]
  expect(await on.firings(id)).toMatchObject(expected)
  // The first process wakes up as if it had been frozen, and still assumes that it has the lease.
  await on.report(toolCall('shell-exec', 'agent-b'), toolCall('shell-exec', 'agent-b'))
  await on.services.ruleRunner.whenIdle()
  await on.runRules()
  expect(await on.firings(id)).toMatchObject(expected)
  await other.runRules()
  expect(await on.firings(id)).toMatchObject([{ group: ['agent-b'] }, ...expected])
})

/** Returns the runners of two processes. For the first, each reading of the time takes a while, as on an overloaded machine. */
function slowRunners(on: RuleService): RuleRunner[] {
  const now = () => on.clock.now()
  const slow = () => {
    on.clock.advance(200)
    return now()
  }
  return [slow, now].map((monotonic) => {
    const deps = { ...on.deps, clock: { now, monotonic } }
    const ruleResponder = new RuleResponder(deps, on.services)
    return new RuleRunner(deps, { ...on.services, ruleResponder })
  })
}

/** Has the second runner ask for the lease all the time until the first has done its work. */
async function keepsLease(on: RuleService, [first, second]: RuleRunner[]): Promise<boolean> {
  let isOver = false
  const before = on.clock.now()
  const work = first!.run().finally(() => {
    isOver = true
  })
  while (!isOver) {
    await new Promise(setImmediate)
    await second!.run()
  }
  await work
  expect(on.clock.now() - before).toBeGreaterThan(3_500)
  return first!.isHolder && !second!.isHolder
}

it.each(['many rules', 'a page of the log'])('keeps its lease while it is slow to take over with %s', async (slow) => {
  const on = await service()
  for (const index of Array(slow === 'many rules' ? 40 : 1).keys()) {
    await on.create(shellRule({ ...burst, title: `Shell ${index}` }))
  }
  if (slow !== 'many rules') await on.report(...Array.from({ length: 500 }, () => toolCall('shell-exec')))
  await on.runRules()
  await on.services.ruleRunner.close()
  const runners = slowRunners(on)
  expect(await keepsLease(on, runners)).toBe(true)
  await runners[0]!.close()
})

it('keeps its lease while an event goes slowly through costly rules', async () => {
  const on = await service()
  const values = Array.from({ length: 490 }, (_, value) => `aaaaa${value}`)
  const detection = { a: { 'metadata.a|contains': values }, condition: 'a' }
  for (const index of [1, 2, 3, 4]) await on.create(shellRule({ detection, title: `${index}`, tests: undefined }))
  await on.services.ruleRunner.close()
  const runners = slowRunners(on)
  await runners[0]!.run()
  await on.report(toolCall('shell-exec', 'agent-a', { metadata: { a: 'a'.repeat(16_000) } }))
  expect(await keepsLease(on, runners)).toBe(true)
  await runners[0]!.close()
})

it('keeps the cooldown of a group after a takeover', async () => {
  const on = await service()
  const id = await on.create(shellRule({ cooldown: '1h' }))
  await on.report(toolCall('shell-exec'))
  await on.runRules()
  await on.services.ruleRunner.close()
  const other = await twinOf(on)
  await other.runRules()
  await other.report(toolCall('shell-exec'), toolCall('shell-exec', 'agent-b'))
  await other.runRules()
  expect(await on.firings(id)).toMatchObject([{ group: ['agent-b'] }, { group: ['agent-a'], seq: 1 }])
})

// Retention deleted all that the rules had still to read, and an event is stored while that is read.
it('does not skip an event that is stored during a read that finds nothing', async () => {
  const on = await service()
  const id = await on.create(shellRule())
  const { database } = on.deps
  const { scan } = database
  let isLate = true
  database.scan = async (caller, read) => {
    const found = await scan(caller, read)
    if (caller !== 'rules' || !isLate) return found
    isLate = false
    await on.report(toolCall('shell-exec'))
    await expect.poll(() => on.services.logFollower.head).toBe(2)
    return [] as never
  }
  // An event that no message announced, and that is gone.
  await on.execute(`update counters set value = value + 1 where name = 'event_seq'`)
  await on.runRules()
  await on.runRules()
  database.scan = scan
  expect([isLate, await on.firings(id)]).toMatchObject([false, [{ seq: 2 }]])
})

// Its rules were read before the deletion, which was learnt meanwhile.
it('does not run a rule again that was deleted while a changed version of it was loaded', async () => {
  const on = await service()
  const id = await on.create(shellRule())
  const { database } = on.deps
  const { db } = database
  const gate = Promise.withResolvers<void>()
  const reached = Promise.withResolvers<void>()
  database.db = db.withPlugin({
    transformQuery: ({ node }) => node,
    async transformResult({ result }) {
      if (result.rows.some((row) => 'text' in row)) {
        reached.resolve()
        await gate.promise
      }
      return result
    },
  })
  await on.execute('update rules set changed_at = changed_at + 1')
  const running = on.runRules()
  await reached.promise
  database.db = db
  const deleted = on.call('DELETE', `/api/rules/${id}`)
  await pause(200)
  gate.resolve()
  expect((await deleted).status).toBe(200)
  await running
  await on.report(toolCall('shell-exec'))
  await on.services.ruleRunner.whenIdle()
  await pause(50)
  await on.services.ruleRunner.whenIdle()
  expect(await on.eventsOf('rule_matched')).toEqual([])
})
