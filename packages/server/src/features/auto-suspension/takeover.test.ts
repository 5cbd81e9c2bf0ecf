import type { Containment, ContainmentPlan, Suspension } from '@wardline/contract'
import { afterEach, describe, expect, it } from 'vitest'
import { minuteMs } from '../../clock.ts'
import { openRuleService, type RuleService, shellRule, toolCall } from '../../testing/rule-service.ts'

const open: RuleService[] = []
afterEach(async () => {
  for (const service of open.splice(0).reverse()) await service[Symbol.asyncDispose]()
})

const path = '/srv/payroll/secret-salaries.csv'
const brakeOff = { WARDLINE_AUTO_SUSPEND_PER_MINUTE: '1000', WARDLINE_AUTO_SUSPEND_FLEET_PERCENT: '100' }

const toolRule = (tool: string, suspend: object) =>
  shellRule({
    title: tool,
    mode: 'enforce',
    detection: { used: { event_type: 'tool_call', 'metadata.tool': tool }, condition: 'used' },
    tests: {
      match: [[{ event_type: 'tool_call', metadata: { tool } }]],
      no_match: [[{ event_type: 'tool_call', metadata: { tool: 'other' } }]],
    },
    response: [{ action: 'suspend', ...suspend }],
  })

/** Opens a service with a decoy path, rules that suspend for 20 seconds, 15 minutes and without end, and agents. */
async function openFleet(ids: readonly string[], env: Record<string, string> = brakeOff): Promise<RuleService> {
  const service = await openRuleService({ env: { WARDLINE_AUTO_SUSPEND: 'decoy,breach', ...env } })
  open.push(service)
  await service.runRules()
  await Promise.all(ids.map((id) => service.call('POST', '/api/heartbeat', { body: { instance_id: id, name: id } })))
  await service.call('POST', '/api/honeypots', { body: { instanceId: ids[0], type: 'file_path', path } })
  for (const [tool, suspend] of Object.entries({ short: { for: '20s' }, long: { for: '15m' }, forever: {} }))
    await service.create(toolRule(tool, suspend))
  return service
}

async function fire(on: RuleService, tool: string, id: string): Promise<void> {
  await on.report(toolCall(tool, id))
  await on.runRules()
}

const touch = (on: RuleService, id: string) =>
  on.call('POST', '/api/honeypots/check/path', { body: { path, meta: { instance_id: id } } })
const kill = (on: RuleService, id: string, reason = 'by hand') =>
  on.call('POST', `/api/kill/${id}`, { body: { reason } })
const resume = (on: RuleService, id: string) => on.call('POST', `/api/resume/${id}`)

const contain = async (on: RuleService, id: string, more: object = {}) => {
  const body = { action: 'suspend', selector: { instances: [id] }, reason: 'stop', confirm: 'suspend 1 agent', ...more }
  const answer = await on.call<Containment & { error?: string }>('POST', '/api/containments', { body })
  await on.services.containmentWork.whenIdle()
  return answer
}

const ways: Record<string, (on: RuleService, id: string) => Promise<unknown>> = {
  'a rule for 20 s': (on, id) => fire(on, 'short', id),
  'a rule for 15 min': (on, id) => fire(on, 'long', id),
  'a rule': (on, id) => fire(on, 'forever', id),
  'a decoy': touch,
  'a breach': (on, id) => on.report({ ...toolCall('x', id), severity: 'breach', event_type: 'exfiltration' }),
  'a person': (on, id) => kill(on, id),
  'a fleet stop': (on, id) => contain(on, id),
  'a fleet stop for two persons': (on, id) => contain(on, id, { two_person: true, reason: 'a stronger stop' }),
}
const strengths: Record<string, number> = {
  'a rule for 20 s': 1,
  'a rule for 15 min': 2,
  'a fleet stop for two persons': 4,
}
const strengthOf = (way: string) => strengths[way] ?? 3
const pairs = Object.keys(ways).flatMap((held) => Object.keys(ways).map((later) => ({ held, later })))

interface Held {
  suspended: number
  reason: string | null
  version: number
}
const stateOf = async (on: RuleService, id: string) =>
  (
    await on.rows<Held>(
      `select suspended, suspension_reason as reason, control_version as version from instances where id = '${id}'`,
    )
  )[0]!
const suspensionsOf = async (on: RuleService, id: string) =>
  (await on.call<{ suspensions: Suspension[] }>('GET', `/api/instances/${id}/suspensions`)).body.suspensions
const changesOf = (on: RuleService, id: string) =>
  on.rows<{ action: string; reason: string }>(
    `select action, reason from audit_log where target = '${id}' and action like 'instance.%' order by seq`,
  )

describe('of two suspensions of an agent', () => {
  it('the stronger and longer one holds, for every pair of ways to suspend', async () => {
    const ids = pairs.map((_, index) => `agent-${index}`)
    const on = await openFleet(ids)
    const messages = new Map<string, number>()
    on.deps.bus.onControl(({ instance_id, version }) => messages.set(instance_id, version))
    for (const [index, { held, later }] of pairs.entries()) {
      const [id, name] = [`agent-${index}`, `${later} after ${held}`]
      await ways[held]!(on, id)
      const before = await stateOf(on, id)
      expect(before, name).toMatchObject({ suspended: 1, version: 1 })
      await ways[later]!(on, id)
      const after = await stateOf(on, id)
      const isTaken = strengthOf(later) > Math.max(strengthOf(held), 2)
      expect(after.version, name).toBe(isTaken ? 2 : 1)
      expect(after.reason === before.reason, name).toBe(!isTaken)
      expect(messages.get(id), name).toBe(after.version)
      const entries = await changesOf(on, id)
      expect(
        entries.map(({ action }) => action),
        name,
      ).toEqual(Array(after.version).fill('instance.suspend'))
      expect(entries.at(-1)!.reason, name).toBe(after.reason)
      const rows = await suspensionsOf(on, id)
      expect(
        rows.map(({ resumed_at }) => resumed_at === null),
        name,
      ).toEqual(isTaken ? [true, false] : [true])
      expect(rows[0]!.ends_at !== null, name).toBe(Math.max(strengthOf(held), strengthOf(later)) < 3)
    }
    const expectActive = async (below: number) => {
      await on.runRules()
      for (const [index, { held, later }] of pairs.entries()) {
        const isOver = Math.max(strengthOf(held), strengthOf(later)) < below
        expect((await stateOf(on, `agent-${index}`)).suspended, `${later} after ${held}`).toBe(isOver ? 0 : 1)
      }
    }
    await expectActive(1)
    on.clock.advance(21_000)
    await expectActive(2)
    on.clock.advance(16 * minuteMs)
    await expectActive(3)
    for (const [index, { held, later }] of pairs.entries()) {
      const strength = Math.max(strengthOf(held), strengthOf(later))
      const expected = strength < 3 ? 400 : strength === 3 ? 200 : 409
      expect((await resume(on, `agent-${index}`)).status, `${later} after ${held}`).toBe(expected)
    }
  })

  it('a kill by a person replaces a timer with 200, and any other suspension answers 400', async () => {
    for (const [index, held] of Object.keys(ways).entries()) {
      const on = open[0] ?? (await openFleet(Object.keys(ways).map((_, each) => `agent-${each}`)))
      await ways[held]!(on, `agent-${index}`)
      const answer = await kill(on, `agent-${index}`, 'the person’s reason')
      const body = { instance_id: `agent-${index}`, ok: true, status: 'suspended' }
      if (strengthOf(held) < 3) expect([answer.status, answer.body], held).toEqual([200, body])
      else expect([answer.status, answer.headers['x-error-code']], held).toEqual([400, 'already_suspended'])
      if (strengthOf(held) < 3) expect((await stateOf(on, `agent-${index}`)).reason, held).toBe('the person’s reason')
    }
  })
})

// An agent lets a rule hold it for 20 seconds, so that what it does meanwhile has no consequence.
it.each(['a decoy', 'a breach', 'a person', 'a fleet stop'])('%s is not undone by the timer of a rule', async (way) => {
  const on = await openFleet(['agent-a', 'agent-b'], { ...brakeOff, WARDLINE_TWO_PERSON_RESUME: 'true' })
  await fire(on, 'short', 'agent-a')
  on.clock.advance(5_000)
  await ways[way]!(on, 'agent-a')
  on.clock.advance(60_000)
  await on.runRules()
  expect(await stateOf(on, 'agent-a')).toMatchObject({ suspended: 1, version: 2 })
  expect((await resume(on, 'agent-a')).status).toBe(409)
})

// Otherwise an agent that a rule holds for seconds stays out of the stop of all.
it('a fleet stop plans, counts and confirms agents that a rule holds for a time', async () => {
  const on = await openFleet(['agent-a', 'agent-b', 'agent-c'])
  await fire(on, 'short', 'agent-a')
  await kill(on, 'agent-b')
  const all = { selector: { all: true } }
  const plan = await contain(on, '', { ...all, dry_run: true })
  expect(plan.body as unknown as ContainmentPlan).toMatchObject({ agents: 2, instances: ['agent-a', 'agent-c'] })
  const { body } = await contain(on, '', { ...all, confirm: 'suspend 2 agents' })
  const read = await on.call<Containment>('GET', `/api/containments/${body.id}`)
  expect(read.body).toMatchObject({ requested: 2, changed: 2, skipped: 0 })
  // The plan for two persons also takes what one person could resume.
  const stronger = await contain(on, '', { ...all, two_person: true, confirm: 'suspend 3 agents' })
  expect((await on.call<Containment>('GET', `/api/containments/${stronger.body.id}`)).body).toMatchObject({
    changed: 3,
  })
  expect((await contain(on, '', { ...all, two_person: true, confirm: 'suspend 3 agents' })).status).toBe(409)
})

// An agent could fill the places of the brake, and then be released by its timer whatever it does.
it('a decoy takes over the suspension by a timer even while the brake is engaged', async () => {
  const on = await openFleet(['agent-a', 'agent-b', 'agent-c'], {
    WARDLINE_AUTO_SUSPEND_FLEET_PERCENT: '10',
    WARDLINE_AUTO_SUSPEND_FLEET_MIN: '1',
  })
  await fire(on, 'short', 'agent-a')
  await touch(on, 'agent-b')
  expect(await on.eventsOf('brake_engaged')).toHaveLength(1)
  await touch(on, 'agent-a')
  on.clock.advance(minuteMs)
  await on.runRules()
  expect((await stateOf(on, 'agent-a')).suspended).toBe(1)
  expect((await stateOf(on, 'agent-b')).suspended).toBe(0)
})

// Between the request of a fleet resume and its work on an agent, which a crash prolongs, the agent is suspended.
describe('while a fleet resume is pending', () => {
  it.each(Object.entries(ways))('%s holds the agent in the end', async (name, suspend) => {
    const on = await openFleet(['agent-a', 'agent-b'])
    const selector = { all: true }
    await contain(on, 'agent-a', { selector, confirm: 'suspend 2 agents' })
    const allow = await on.refuse('update', 'containment_parts')
    const more = { action: 'resume', selector, confirm: 'resume 2 agents' }
    expect((await contain(on, 'agent-a', more)).status).toBe(201)
    expect((await stateOf(on, 'agent-a')).suspended).toBe(1)
    await suspend(on, 'agent-a')
    if (!name.includes('fleet')) expect(await stateOf(on, 'agent-a')).toMatchObject({ suspended: 1, version: 2 })
    await allow()
    await on.services.containmentWork.run()
    await on.services.containmentWork.whenIdle()
    expect((await stateOf(on, 'agent-a')).suspended).toBe(1)
    expect((await stateOf(on, 'agent-b')).suspended).toBe(0)
  })

  it('a kill answers 200', async () => {
    const on = await openFleet(['agent-a'])
    await contain(on, 'agent-a')
    const allow = await on.refuse('update', 'containment_parts')
    await contain(on, 'agent-a', { action: 'resume', confirm: 'resume 1 agent' })
    expect((await kill(on, 'agent-a')).status).toBe(200)
    expect((await kill(on, 'agent-a')).status).toBe(400)
    await allow()
  })
})

// Otherwise a rule with a short timer that matches the same event comes before every other one.
it('the same event suspends by each of its rules, and the longest holds', async () => {
  const on = await openFleet(['agent-a'])
  const { autoSuspension } = on.services
  const { answer } = autoSuspension
  const id = await on.create(toolRule('short', {}))
  autoSuspension.answer = (breach) =>
    breach.rule?.id === id ? Promise.reject(new Error('a later attempt succeeds')) : answer(breach)
  await fire(on, 'short', 'agent-a')
  expect((await suspensionsOf(on, 'agent-a')).map(({ ends_at }) => ends_at === null)).toEqual([false])
  autoSuspension.answer = answer
  await on.runRules()
  on.clock.advance(minuteMs)
  await on.runRules()
  expect((await stateOf(on, 'agent-a')).suspended).toBe(1)
})

// A rule reads that its agent is suspended, and then what holds it.
it('a rule holds the agent that a person resumes between these two readings, and a breach beside it holds', async () => {
  const on = await openFleet(['agent-a', 'agent-b'])
  await fire(on, 'short', 'agent-a')
  const { pendingResumes } = on.services
  const { find } = pendingResumes
  let resumed: { status: number } | undefined
  pendingResumes.find = async (suspensions) => {
    const found = await find(suspensions)
    if (!resumed && suspensions.length > 0) {
      resumed = { status: 0 }
      resumed = await resume(on, 'agent-a')
    }
    return found
  }
  const { autoSuspension } = on.services
  const breach = { instanceId: 'agent-a', keyId: 'k', eventId: 'e', reason: 'r' }
  const rule = { id: 'r', endsAt: on.clock.now() + 15 * minuteMs, settle: () => [] }
  const breaches = [
    { ...breach, rule },
    { ...breach, instanceId: 'agent-b', eventId: 'f' },
  ]
  // Both in one batch.
  const outcomes = await Promise.allSettled(breaches.map((one) => autoSuspension.answer(one)))
  expect(resumed).toMatchObject({ status: 200 })
  expect(outcomes).toMatchObject([{ value: 'suspend' }, { value: 'suspend' }])
  for (const id of ['agent-a', 'agent-b']) expect((await stateOf(on, id)).suspended).toBe(1)
})

describe('two processes', () => {
  it('make one of two kills of an agent that a timer holds succeed', async () => {
    const on = await openFleet(['agent-a'])
    const other = await openRuleService({ dataDir: on.deps.config.dataDir, clock: on.clock })
    open.push(other)
    for (let round = 0; round < 10; round++) {
      await fire(on, 'long', 'agent-a')
      const answers = await Promise.all([on, other].map((service) => kill(service, 'agent-a')))
      expect(answers.map(({ status }) => status).sort()).toEqual([200, 400])
      expect((await resume(on, 'agent-a')).status).toBe(200)
      on.clock.advance(minuteMs)
    }
    const { version } = await stateOf(on, 'agent-a')
    expect(await changesOf(on, 'agent-a')).toHaveLength(version)
  })

  // A kill at the moment at which the timer ends must hold, whichever comes first.
  it('keep an agent suspended that is killed while its timer ends', async () => {
    const on = await openFleet(['agent-a'])
    const other = await openRuleService({ dataDir: on.deps.config.dataDir, clock: on.clock })
    open.push(other)
    for (let round = 0; round < 10; round++) {
      await fire(on, 'short', 'agent-a')
      on.clock.advance(21_000)
      const [killed] = await Promise.all([kill(other, 'agent-a'), on.runRules()])
      expect(killed.status).toBe(200)
      await on.runRules()
      expect((await stateOf(on, 'agent-a')).suspended).toBe(1)
      expect((await resume(on, 'agent-a')).status).toBe(200)
      on.clock.advance(minuteMs)
    }
    const { version } = await stateOf(on, 'agent-a')
    expect(await changesOf(on, 'agent-a')).toHaveLength(version)
  })
})
