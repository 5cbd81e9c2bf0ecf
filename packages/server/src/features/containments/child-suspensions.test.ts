import type { Containment, InstanceDetail, Suspension } from '@wardline/contract'
import { afterEach, describe, expect, it } from 'vitest'
import { minuteMs } from '../../clock.ts'
import { openRuleService, type RuleService, shellRule, toolCall } from '../../testing/rule-service.ts'
import { openTestService, type TestService } from '../../testing/service.ts'
import { verifyAudit } from '../audit/audit.ts'
import { readExpired } from '../suspensions/suspension-statements.ts'

const open: TestService[] = []
afterEach(async () => {
  for (const service of open.splice(0).reverse()) await service[Symbol.asyncDispose]()
})

const decoyPath = '/srv/payroll/secret-salaries.csv'
const brakeOff = { WARDLINE_AUTO_SUSPEND_PER_MINUTE: '1000', WARDLINE_AUTO_SUSPEND_FLEET_PERCENT: '100' }

async function openPlain(env: Record<string, string> = {}): Promise<TestService> {
  const service = await openTestService({ env })
  open.push(service)
  return service
}

const beat = (on: TestService, id: string, parent?: string, key?: string) =>
  on.call('POST', '/api/heartbeat', {
    body: { instance_id: id, name: id, ...(parent === undefined ? {} : { parent_instance_id: parent }) },
    ...(key === undefined ? {} : { key }),
  })
const kill = (on: TestService, id: string, reason = 'by hand') =>
  on.call('POST', `/api/kill/${id}`, { body: { reason } })
const resume = (on: TestService, id: string, key?: string) =>
  on.call<{ error: string }>('POST', `/api/resume/${id}`, key === undefined ? {} : { key })
const sweep = (on: TestService) => on.services.childSuspensions.run()
const stateOf = async (on: TestService, id: string) => {
  const { body } = await on.call<InstanceDetail>('GET', `/api/instances/${id}`)
  return [body.status === 'suspended', body.suspension_reason, body.control.version]
}
const isSuspended = async (on: TestService, id: string) => (await stateOf(on, id))[0]
const suspensionsOf = async (on: TestService, id: string) =>
  (await on.call<{ suspensions: Suspension[] }>('GET', `/api/instances/${id}/suspensions`)).body.suspensions

async function contain(on: TestService, ids: readonly string[], more: object = {}) {
  const action = 'action' in more ? more.action : 'suspend'
  const confirm = `${action} ${ids.length} ${ids.length === 1 ? 'agent' : 'agents'}`
  const { key, ...rest } = { key: undefined as string | undefined, ...more }
  const body = { action, selector: { instances: ids }, reason: 'stop', confirm, ...rest }
  const answer = await on.call<Containment & { error?: string }>('POST', '/api/containments', {
    body,
    ...(key === undefined ? {} : { key }),
  })
  await on.services.containmentWork.whenIdle()
  return answer
}

async function fire(on: RuleService, tool: string, id: string) {
  await on.report(toolCall(tool, id))
  await on.runRules()
}
const touch = (on: TestService, id: string) =>
  on.call('POST', '/api/honeypots/check/path', { body: { path: decoyPath, meta: { instance_id: id } } })

const ways: Record<string, (on: RuleService, id: string) => Promise<unknown>> = {
  'a person': (on, id) => kill(on, id),
  'a decoy': touch,
  'a breach': (on, id) => on.report({ ...toolCall('x', id), severity: 'breach', event_type: 'exfiltration' }),
  'a rule': (on, id) => fire(on, 'forever', id),
  'a rule for 20 s': (on, id) => fire(on, 'short', id),
  'a fleet stop': (on, id) => contain(on, [id]),
  'a fleet stop for two persons': (on, id) => contain(on, [id], { two_person: true }),
}

/** Members of a family, by what suspends them until the parent is resumed. */
const members = ['running', 'before', 'timed-before', 'meanwhile', 'decoyed', 'timed', 'late', 'grand', 'late-grand']
const suspendedThrough = new Set(['running', 'late', 'grand', 'late-grand'])

const resumes: Record<string, (on: RuleService, family: string, key?: string) => Promise<{ status: number }>> = {
  'a person': (on, family, key) => resume(on, `${family}-lead`, key),
  'a fleet resume': (on, family, key) => contain(on, [`${family}-lead`], { action: 'resume', key }),
  'a fleet resume of the family': (on, family, key) => {
    const ids = ['lead', ...members].map((name) => `${family}-${name}`)
    return contain(on, ids, { action: 'resume', key })
  },
}

async function openFleet(): Promise<RuleService> {
  const on = await openRuleService({ env: { WARDLINE_AUTO_SUSPEND: 'decoy,breach', ...brakeOff } })
  open.push(on)
  await on.runRules()
  await beat(on, 'anyone')
  await on.call('POST', '/api/honeypots', { body: { instanceId: 'anyone', type: 'file_path', path: decoyPath } })
  for (const [tool, suspend] of Object.entries({ short: { for: '20s' }, long: { for: '15m' }, forever: {} })) {
    const rule = shellRule({
      title: tool,
      mode: 'enforce',
      detection: { used: { event_type: 'tool_call', 'metadata.tool': tool }, condition: 'used' },
      tests: {
        match: [[{ event_type: 'tool_call', metadata: { tool } }]],
        no_match: [[{ event_type: 'tool_call', metadata: { tool: 'other' } }]],
      },
      response: [{ action: 'suspend', ...suspend }],
    })
    await on.create(rule)
  }
  return on
}

describe.each(Object.keys(ways))('a parent that %s suspends', (way) => {
  const pairs = way === 'a rule for 20 s' ? ['its timer', ...Object.keys(resumes)] : Object.keys(resumes)

  it('suspends its descendants, and they are resumed with it unless something else holds them', async () => {
    const on = await openFleet()
    const second = await on.createKey('operator')
    for (const [index, way2] of pairs.entries()) {
      const family = `f${index}`
      const of = (name: string) => `${family}-${name}`
      const named = (name: string) => `${way2}: ${name}`
      await beat(on, of('lead'))
      for (const name of ['running', 'before', 'timed-before', 'meanwhile', 'decoyed', 'timed']) {
        await beat(on, of(name), of('lead'))
      }
      await beat(on, of('grand'), of('running'))
      await kill(on, of('before'), 'itself')
      await fire(on, 'long', of('timed-before'))

      await ways[way]!(on, of('lead'))
      const [isStopped, reason] = await stateOf(on, of('lead'))
      expect(isStopped, named('lead')).toBe(true)
      await sweep(on)
      expect(await stateOf(on, of('running')), named('running')).toEqual([
        true,
        `Parent ${of('lead')} is suspended: ${reason}`,
        1,
      ])
      expect((await stateOf(on, of('grand')))[1], named('grand')).toBe(
        `Parent ${of('running')} is suspended: Parent ${of('lead')} is suspended: ${reason}`,
      )
      expect(await stateOf(on, of('before')), named('before')).toEqual([true, 'itself', 1])
      expect((await stateOf(on, of('timed-before')))[2], named('timed-before')).toBe(1)

      expect((await kill(on, of('meanwhile'), 'itself')).status, named('meanwhile')).toBe(200)
      await touch(on, of('decoyed'))
      await fire(on, 'long', of('timed'))
      await beat(on, of('late'), of('lead'))
      await beat(on, of('late-grand'), of('late'))
      for (const name of members) {
        expect(await isSuspended(on, of(name)), named(name)).toBe(true)
        const [{ through, ends_at }] = (await suspensionsOf(on, of(name))) as [Suspension]
        const parent = name === 'grand' ? 'running' : name === 'late-grand' ? 'late' : 'lead'
        expect(through, named(name)).toBe(suspendedThrough.has(name) ? of(parent) : null)
        expect(ends_at !== null, named(name)).toBe(name.startsWith('timed'))
        const refused = await resume(on, of(name))
        expect([refused.status, refused.headers['x-error-code']], named(name)).toEqual([409, 'parent_suspended'])
        expect(refused.body.error, named(name)).toContain(`its parent ${of(parent)} is`)
        expect((await contain(on, [of(name)], { action: 'resume' })).status, named(name)).toBe(409)
      }

      if (way2 === 'its timer') {
        on.clock.advance(21_000)
        await on.runRules()
      } else {
        const needsTwo = way === 'a fleet stop for two persons'
        const first = await resumes[way2]!(on, family)
        expect(first.status, named('lead')).toBe(needsTwo ? 409 : way2 === 'a person' ? 200 : 201)
        if (needsTwo) expect((await resumes[way2]!(on, family, second.key)).status).toBeLessThan(300)
      }
      expect(await isSuspended(on, of('lead')), named('lead')).toBe(false)
      await sweep(on)
      for (const name of members) {
        const isFree = suspendedThrough.has(name) || way2 === 'a fleet resume of the family'
        expect(await isSuspended(on, of(name)), named(name)).toBe(!isFree)
      }
      on.clock.advance(16 * minuteMs)
      await on.runRules()
      for (const name of ['timed-before', 'timed']) expect(await isSuspended(on, of(name)), named(name)).toBe(false)
    }
    expect(await verifyAudit(on.deps.database)).toMatchObject({ ok: true })
  })
})

describe('while a parent is suspended', () => {
  // The timer of a rule would otherwise free an agent that two operators have to resume.
  it('the timer of a child waits, and ends it once the parent is resumed', async () => {
    const on = await openFleet()
    await beat(on, 'lead')
    await beat(on, 'child', 'lead')
    await fire(on, 'short', 'child')
    await kill(on, 'lead')
    await sweep(on)
    on.clock.advance(minuteMs)
    await on.runRules()
    expect(await isSuspended(on, 'child')).toBe(true)
    // Those that wait take no place in a run from timers of others.
    expect(await readExpired(on.deps.database.db, on.clock.now(), 10)).toEqual([])
    await resume(on, 'lead')
    await sweep(on)
    await on.runRules()
    expect(await isSuspended(on, 'child')).toBe(false)
  })

  it('a resume of many leaves its children out, and one that resumes it as well begins with it', async () => {
    const on = await openPlain()
    await beat(on, 'z-lead')
    for (const id of ['a-child', 'b-child']) await beat(on, id, 'z-lead')
    await beat(on, 'alone')
    for (const id of ['z-lead', 'a-child', 'alone']) await kill(on, id)
    await sweep(on)
    const refused = await contain(on, ['a-child'], { action: 'resume' })
    expect([refused.status, refused.headers['x-error-code']]).toEqual([409, 'parent_suspended'])
    expect(refused.body.error).toBe(
      'a-child stays suspended as long as its parent z-lead is: resume z-lead, which resumes those that are suspended only because of it.',
    )
    const selector = { instances: ['a-child', 'alone'] }
    const partly = await contain(on, ['alone'], { action: 'resume', selector })
    expect([partly.status, partly.body.requested]).toEqual([201, 1])
    expect(await isSuspended(on, 'a-child')).toBe(true)
    const all = await contain(on, ['a-child', 'b-child', 'z-lead'], { action: 'resume', selector: { all: true } })
    expect(all.status).toBe(201)
    const { body } = await on.call<Containment>('GET', `/api/containments/${all.body.id}`)
    expect(body).toMatchObject({ changed: 3, skipped: 0 })
    await sweep(on)
    for (const id of ['a-child', 'b-child', 'z-lead'])
      expect((await stateOf(on, id)).slice(0, 3)).toEqual([false, null, 2])
  })

  it('a part of a resume leaves out children whose parent was suspended again since it was requested', async () => {
    const on = await openPlain()
    await beat(on, 'lead')
    await beat(on, 'child', 'lead')
    await kill(on, 'child', 'itself')
    const allow = await on.refuse('update', 'containment_parts')
    await contain(on, ['child'], { action: 'resume' })
    await kill(on, 'lead')
    await allow()
    await on.services.containmentWork.run()
    await on.services.containmentWork.whenIdle()
    expect(await isSuspended(on, 'child')).toBe(true)
  })

  it('a fleet stop of a child holds it when the parent is resumed', async () => {
    const on = await openPlain()
    await beat(on, 'lead')
    await beat(on, 'child', 'lead')
    await kill(on, 'lead')
    await sweep(on)
    expect((await contain(on, ['child'])).status).toBe(201)
    await resume(on, 'lead')
    await sweep(on)
    expect(await stateOf(on, 'child')).toEqual([true, 'stop', 2])
  })

  it('it stays for its children suspended after it was resumed and suspended again, with the same suspension', async () => {
    const on = await openPlain()
    await beat(on, 'lead')
    await beat(on, 'child', 'lead')
    await kill(on, 'lead')
    await sweep(on)
    await resume(on, 'lead')
    await kill(on, 'lead', 'again')
    await sweep(on)
    expect(await stateOf(on, 'child')).toEqual([true, 'Parent lead is suspended: by hand', 1])
    await resume(on, 'lead')
    await sweep(on)
    expect(await isSuspended(on, 'child')).toBe(false)
  })

  it('an agent that names it later is suspended, and one whose parent registers suspended as well', async () => {
    const on = await openPlain()
    const { key } = await on.createKey('agent', ['codex-*'])
    await beat(on, 'early', 'codex-2')
    await beat(on, 'codex-1', undefined, key)
    await beat(on, 'later')
    await contain(on, ['codex-1'])
    await sweep(on)
    await beat(on, 'later', 'codex-1')
    await beat(on, 'codex-2', undefined, key)
    expect(await isSuspended(on, 'codex-2')).toBe(true)
    await sweep(on)
    expect([await isSuspended(on, 'later'), await isSuspended(on, 'early')]).toEqual([true, true])
  })

  // A key could otherwise name a victim as parent, and read why that is suspended.
  it('its reason is passed on only to children that the same key registered', async () => {
    const on = await openPlain()
    const victim = await on.createKey('agent', ['victim-*'])
    const other = await on.createKey('agent', ['other-*'])
    await beat(on, 'victim-1', undefined, victim.key)
    await beat(on, 'victim-2', 'victim-1', victim.key)
    await beat(on, 'other-1', 'victim-1', other.key)
    await kill(on, 'victim-1', 'secret')
    await sweep(on)
    await beat(on, 'victim-3', 'victim-1', victim.key)
    await beat(on, 'other-2', 'victim-1', other.key)
    for (const id of ['victim-2', 'victim-3']) {
      expect((await stateOf(on, id))[1]).toBe('Parent victim-1 is suspended: secret')
    }
    for (const id of ['other-1', 'other-2']) expect((await stateOf(on, id))[1]).toBe('Parent victim-1 is suspended')
    await on.services.suspensionFacts.write()
    const rows = await on.rows<{ n: number }>(
      `select count(*) as n from audit_log where target = 'other-1' and reason like '%secret%'`,
    )
    expect(Number(rows[0]!.n)).toBe(0)
  })
})

// An agent that can start thousands would otherwise use up the brake, and then nothing is suspended automatically.
it('children take no place under the brake', async () => {
  const on = await openPlain({ WARDLINE_AUTO_SUSPEND: 'decoy', WARDLINE_AUTO_SUSPEND_PER_MINUTE: '3' })
  for (const id of ['lead', 'other']) await beat(on, id)
  for (let index = 0; index < 20; index++) await beat(on, `child-${index}`, 'lead')
  await on.call('POST', '/api/honeypots', { body: { instanceId: 'lead', type: 'file_path', path: decoyPath } })
  await touch(on, 'lead')
  await sweep(on)
  expect(await isSuspended(on, 'child-19')).toBe(true)
  // One that is held already has its place, as if a timer held it.
  await touch(on, 'child-1')
  expect((await suspensionsOf(on, 'child-1'))[0]).toMatchObject({ through: null })
  await touch(on, 'other')
  expect(await isSuspended(on, 'other')).toBe(true)
})

describe('two processes', () => {
  async function openTwo() {
    const on = await openPlain()
    const other = await openTestService({ dataDir: on.deps.config.dataDir, clock: on.clock })
    open.push(other)
    return { on, other }
  }

  it('suspend and resume 2,000 children once each', async () => {
    const { on, other } = await openTwo()
    const registers = { owner: 'k', max: null, tags: null }
    const send = (id: string, parent?: string) => {
      const heartbeat = { instance_id: id, name: id, ...(parent === undefined ? {} : { parent_instance_id: parent }) }
      return on.services.heartbeats.beat(heartbeat, { registers, instances: null, keyId: 'k' })
    }
    await send('lead')
    await Promise.all(Array.from({ length: 2_000 }, (_, index) => send(`many-${index}`, 'lead')))
    const bySuspension = () =>
      on.rows(`select suspended, control_version, count(*) as n from instances where parent_id = 'lead' group by 1, 2`)
    const numbers = (rows: object[]) => rows.map((row) => Object.values(row).map(Number))
    await Promise.all([sweep(on), sweep(other)])
    await kill(on, 'lead')
    await Promise.all([sweep(on), sweep(other)])
    // What the other process hears is repeated each second.
    await other.services.controlRelay.run()
    await Promise.all([sweep(on), sweep(other)])
    expect(numbers(await bySuspension())).toEqual([[1, 1, 2_000]])
    await resume(on, 'lead')
    await Promise.all([sweep(on), sweep(other)])
    expect(numbers(await bySuspension())).toEqual([[0, 2, 2_000]])
    const entries = await on.rows(`select count(*) as n from audit_log where target like 'many-%'`)
    expect(numbers(entries)).toEqual([[4_000]])
    expect(await verifyAudit(on.deps.database)).toMatchObject({ ok: true })
  })

  it('one finishes what the other began when that crashes between parent and children', async () => {
    const { on, other } = await openTwo()
    await beat(on, 'lead')
    for (let index = 0; index < 5; index++) await beat(on, `child-${index}`, 'lead')
    await beat(on, 'grand', 'child-0')
    await sweep(other)
    // The process that suspends the parent never looks at its children.
    await kill(on, 'lead')
    await other.services.controlRelay.run()
    await sweep(other)
    expect([await isSuspended(other, 'child-4'), await isSuspended(other, 'grand')]).toEqual([true, true])
    await resume(on, 'lead')
    await other.services.controlRelay.run()
    await sweep(other)
    expect([await isSuspended(other, 'child-4'), await isSuspended(other, 'grand')]).toEqual([false, false])
  })

  it('a transaction that fails changes nothing and is repeated, and the first run of a new process compares all', async () => {
    const { on, other } = await openTwo()
    await beat(on, 'lead')
    await beat(on, 'child', 'lead')
    await sweep(on)
    await kill(on, 'lead')
    for (const table of ['suspensions', 'audit_log']) {
      const allow = await on.refuse('insert', table)
      await expect(sweep(on)).rejects.toThrow()
      expect(await stateOf(on, 'child'), table).toEqual([false, null, 0])
      await allow()
    }
    await sweep(on)
    expect(await isSuspended(on, 'child')).toBe(true)
    await resume(on, 'lead')
    await sweep(other)
    expect(await isSuspended(on, 'child')).toBe(false)
  })
})

// Between reading and writing, the parent is resumed: its child would stay suspended with nothing that ends it.
it('a child is not suspended through a parent that was resumed since it was read', async () => {
  const on = await openPlain()
  await beat(on, 'lead')
  await beat(on, 'child', 'lead')
  await kill(on, 'lead')
  const { database } = on.deps
  const { batch } = database
  let isDue = true
  database.batch = async (statements, options) => {
    if (isDue && statements.some(({ sql }) => sql.includes('through_id'))) {
      isDue = false
      database.batch = batch
      await resume(on, 'lead')
    }
    return batch(statements, options)
  }
  await sweep(on)
  expect(isDue).toBe(false)
  expect(await stateOf(on, 'child')).toEqual([false, null, 0])
  expect(await suspensionsOf(on, 'child')).toEqual([])
})

it.each(['a person', 'a timer'])(
  '%s does not resume a child whose parent is suspended since it was read',
  async (who) => {
    const on = await openFleet()
    await beat(on, 'lead')
    await beat(on, 'child', 'lead')
    if (who === 'a timer') await fire(on, 'short', 'child')
    else await kill(on, 'child')
    on.clock.advance(minuteMs)
    const { database } = on.deps
    const { batch } = database
    let isDue = true
    database.batch = async (statements, options) => {
      if (isDue && statements.some(({ sql }) => sql.startsWith('update "instances" set "suspended"'))) {
        isDue = false
        database.batch = batch
        await kill(on, 'lead')
      }
      return batch(statements, options)
    }
    if (who === 'a timer') await on.runRules()
    else expect((await resume(on, 'child')).status).toBe(409)
    expect([isDue, await isSuspended(on, 'child')]).toEqual([false, true])
    await resume(on, 'lead')
    await on.runRules()
    expect(await isSuspended(on, 'child')).toBe(who === 'a person')
  },
)
