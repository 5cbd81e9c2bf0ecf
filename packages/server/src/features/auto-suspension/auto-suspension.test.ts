import type { BrakeView, ControlMessage, EventRow } from '@wardline/contract'
import { describe, expect, it } from 'vitest'
import { effort } from '../../../../../test-servers/effort.ts'
import { seededDraws } from '../../../../../test-servers/seeded-draws.ts'
import { hourMs, minuteMs } from '../../clock.ts'
import { openTestService, type TestService } from '../../testing/service.ts'
import { fleetMax } from './brake-rules.ts'

const path = '/srv/payroll/secret-salaries.csv'
const decoyEnv = { WARDLINE_AUTO_SUSPEND: 'decoy', WARDLINE_AUTO_SUSPEND_FLEET_MIN: '1' }

const beat = (service: TestService, id: string) =>
  service.call('POST', '/api/heartbeat', { body: { instance_id: id, name: id } })

/** Opens a service with a decoy path and the agents `bot-0`, `bot-1` and so on. */
async function openWithDecoy(env: Record<string, string>, agents = 1): Promise<TestService> {
  const service = await openTestService({ env })
  const ids = Array.from({ length: agents }, (_, index) => `bot-${index}`)
  await Promise.all(ids.map((id) => beat(service, id)))
  await service.call('POST', '/api/honeypots', {
    body: { instanceId: 'bot-0', type: 'file_path', path, label: 'a label' },
  })
  return service
}

const touch = (service: TestService, id: string | undefined, key?: string) =>
  service.call<{ matched: boolean }>('POST', '/api/honeypots/check/path', {
    body: { path, ...(id === undefined ? {} : { meta: { instance_id: id } }) },
    ...(key === undefined ? {} : { key }),
  })

const brakeOf = async (service: TestService) => (await service.call<BrakeView>('GET', '/api/brake')).body
const release = (service: TestService, body: object = { action: 'release', reason: 'Checked' }, key?: string) =>
  service.call<BrakeView>('POST', '/api/brake', { body, ...(key === undefined ? {} : { key }) })

const suspended = async (service: TestService) =>
  (await service.rows<{ id: string }>('select id from instances where suspended = 1 order by id')).map(({ id }) => id)
const count = async (service: TestService, what: string) =>
  Number((await service.rows<{ count: number }>(`select count(*) as count from ${what}`))[0]!.count)
const eventsOf = async (service: TestService, type: string) =>
  (await service.call<{ events: EventRow[] }>('GET', `/api/events?event_type=${type}`)).body.events

describe('a touched decoy', () => {
  it('suspends no agent by default', async () => {
    await using service = await openWithDecoy({})
    expect((await touch(service, 'bot-0')).body).toEqual({ matched: true })
    expect(await suspended(service)).toEqual([])
    expect(await count(service, 'honeypot_hits')).toBe(1)
  })

  it('suspends the agent, with a reason that names the ids of decoy and event but not the path or label', async () => {
    await using service = await openWithDecoy(decoyEnv)
    const messages: ControlMessage[] = []
    service.deps.bus.onControl((message) => messages.push(message))
    expect((await touch(service, 'bot-0')).body).toEqual({ matched: true })
    const [hit] = await eventsOf(service, 'honeypot_triggered')
    const [decoy] = await service.rows<{ id: string }>('select id from honeypots')
    const reason = `Decoy ${decoy!.id} was touched (event ${hit!.id})`
    expect(await service.rows('select suspended, suspension_reason, control_version from instances')).toEqual([
      { suspended: 1, suspension_reason: reason, control_version: 1 },
    ])
    expect(messages).toMatchObject([{ instance_id: 'bot-0', action: 'suspend', reason, version: 1 }])
    const [entry] = await service.rows<{ after: string }>(
      `select actor, reason, target, after from audit_log where action = 'instance.suspend'`,
    )
    expect(entry).toMatchObject({ actor: 'system', reason, target: 'bot-0' })
    expect(JSON.parse(entry!.after)).toEqual({ suspended: true, version: 1, event_id: hit!.id })
    expect(await service.rows('select version, event_id, reason, actor from suspensions')).toEqual([
      { version: 1, event_id: hit!.id, reason, actor: 'system' },
    ])
    for (const hidden of [path, 'a label', 'salaries'])
      expect(JSON.stringify([messages, entry, hit])).not.toContain(hidden)
  })

  it('only stores the hit when the agent is already suspended', async () => {
    await using service = await openWithDecoy(decoyEnv)
    await service.call('POST', '/api/kill/bot-0', { body: { reason: 'by hand' } })
    await touch(service, 'bot-0')
    expect(await count(service, 'honeypot_hits')).toBe(1)
    expect(await service.rows('select suspension_reason, control_version from instances')).toEqual([
      { suspension_reason: 'by hand', control_version: 1 },
    ])
  })

  // Otherwise the holder of one agent key could get every other agent suspended.
  it('suspends the instance that the key is bound to, not the one that the caller names', async () => {
    await using service = await openWithDecoy(decoyEnv, 2)
    await service.call('POST', '/api/honeypots', { body: { instanceId: 'bot-1', type: 'file_path', path } })
    const { key } = await service.createKey('agent', ['bot-1'])
    await touch(service, 'bot-0', key)
    expect(await suspended(service)).toEqual(['bot-1'])
  })

  it('suspends no agent and reports that when the key has several agents and the caller names none of them', async () => {
    await using service = await openWithDecoy(decoyEnv, 3)
    const { key } = await service.createKey('agent', ['bot-*'])
    await touch(service, undefined, key)
    await touch(service, 'ghost', key)
    await touch(service, 'bot-nobody', key)
    expect(await suspended(service)).toEqual([])
    expect(await count(service, 'honeypot_hits')).toBe(3)
    // Reports are stored after the answer.
    await expect.poll(() => eventsOf(service, 'suspension_skipped')).toHaveLength(2)
    const skipped = await eventsOf(service, 'suspension_skipped')
    expect(skipped.map(({ severity, by_service }) => ({ severity, by_service }))).toEqual(
      Array(2).fill({ severity: 'warning', by_service: true }),
    )
    await touch(service, 'bot-2', key)
    expect(await suspended(service)).toEqual(['bot-2'])
  })

  it('is stored together with the suspension or not at all', async () => {
    await using service = await openWithDecoy(decoyEnv)
    for (const table of ['audit_log', 'suspensions', 'honeypot_hits']) {
      const allow = await service.refuse('insert', table)
      expect((await touch(service, 'bot-0')).status, table).toBe(500)
      expect(await suspended(service), table).toEqual([])
      expect(await count(service, 'honeypot_hits'), table).toBe(0)
      expect(await count(service, `events where event_type = 'honeypot_triggered'`), table).toBe(0)
      await allow()
    }
    await touch(service, 'bot-0')
    expect(await suspended(service)).toEqual(['bot-0'])
    expect(await count(service, 'honeypot_hits')).toBe(1)
  })

  it('is answered without an error while a person kills and resumes the same agent', async () => {
    await using service = await openWithDecoy({
      ...decoyEnv,
      WARDLINE_AUTO_SUSPEND_PER_MINUTE: '1000',
      WARDLINE_AUTO_SUSPEND_FLEET_PERCENT: '100',
    })
    const rounds = 15
    for (let round = 0; round < rounds; round++) {
      const [answer, event] = await Promise.all([
        touch(service, 'bot-0'),
        service.call('POST', '/api/events', {
          body: { severity: 'info', source: 'bot', event_type: 'tool_call', description: 'x', instance_id: 'bot-0' },
        }),
        service.call('POST', '/api/kill/bot-0', { body: { reason: 'by hand' } }),
        service.call('POST', '/api/resume/bot-0'),
      ])
      expect([answer.status, event.status]).toEqual([200, 201])
    }
    expect(await count(service, 'honeypot_hits')).toBe(rounds)
    const [{ version } = { version: 0 }] = await service.rows<{ version: number }>(
      'select control_version as version from instances',
    )
    expect(await count(service, `audit_log where action in ('instance.suspend', 'instance.resume')`)).toBe(version)
  })
})

describe('a reported breach', () => {
  const report = (service: TestService, body: object, key?: string, headers: Record<string, string> = {}) =>
    service.call<{ id: string }>('POST', '/api/events', {
      body: { severity: 'breach', source: 'bot', event_type: 'data_leak', description: 'x', ...body },
      headers,
      ...(key === undefined ? {} : { key }),
    })
  const env = { WARDLINE_AUTO_SUSPEND: 'decoy,breach', WARDLINE_AUTO_SUSPEND_FLEET_MIN: '1' }

  it('suspends the agent that the key is bound to before the response', async () => {
    await using service = await openWithDecoy(env, 3)
    const { key } = await service.createKey('agent', ['bot-1'])
    expect((await report(service, { instance_id: 'bot-2' }, key)).status).toBe(403)
    const { body } = await report(service, { instance_id: 'bot-1' }, key)
    expect(await suspended(service)).toEqual(['bot-1'])
    expect(await service.rows('select event_id from suspensions')).toEqual([{ event_id: body.id }])
  })

  it('suspends no agent at a lower severity or when only decoys are configured', async () => {
    await using service = await openWithDecoy(decoyEnv)
    await report(service, { instance_id: 'bot-0' })
    expect(await suspended(service)).toEqual([])
    await using other = await openWithDecoy(env)
    await report(other, { instance_id: 'bot-0', severity: 'critical' })
    expect(await suspended(other)).toEqual([])
  })

  // An agent must not undo a later resume by a person by repeating its request.
  it('does not suspend again when the same request is repeated after a resume', async () => {
    await using service = await openWithDecoy(env)
    const headers = { 'idempotency-key': 'one' }
    await report(service, { instance_id: 'bot-0' }, undefined, headers)
    await service.call('POST', '/api/resume/bot-0')
    await report(service, { instance_id: 'bot-0' }, undefined, headers)
    expect(await suspended(service)).toEqual([])
    await report(service, { instance_id: 'bot-0' })
    expect(await suspended(service)).toEqual(['bot-0'])
  })

  it('suspends its agent when it is one event of a batch', async () => {
    await using service = await openWithDecoy({ ...env, WARDLINE_AUTO_SUSPEND_FLEET_PERCENT: '100' }, 4)
    const event = (severity: string, id: string) => ({
      severity,
      source: id,
      event_type: 'x',
      description: 'x',
      instance_id: id,
    })
    await service.call('POST', '/api/events/batch', {
      body: [event('info', 'bot-0'), event('breach', 'bot-1'), event('breach', 'bot-2'), event('breach', 'bot-1')],
    })
    expect(await suspended(service)).toEqual(['bot-1', 'bot-2'])
  })
})

describe('the brake', () => {
  it('engages beyond the limit, names the agents it left running, and stays engaged until an operator releases it', async () => {
    await using service = await openWithDecoy({ ...decoyEnv, WARDLINE_AUTO_SUSPEND_PER_MINUTE: '2' }, 40)
    for (const id of ['bot-1', 'bot-2', 'bot-3', 'bot-4', 'bot-3'])
      expect((await touch(service, id)).body.matched).toBe(true)
    expect(await suspended(service)).toEqual(['bot-1', 'bot-2'])
    const [engaged, ...more] = await eventsOf(service, 'brake_engaged')
    expect(engaged).toMatchObject({ severity: 'critical', by_service: true })
    expect(more).toEqual([])
    const hits = await service.rows<{ event_id: string; reporter: string }>(
      'select event_id, reporter from honeypot_hits',
    )
    expect(hits).toHaveLength(5)
    expect(await brakeOf(service)).toMatchObject({
      engaged: true,
      engaged_by_event: hits.find(({ reporter }) => reporter === 'bot-3')!.event_id,
      refused: 3,
      limits: { per_minute: 2, fleet_percent: 10, fleet: 40, fleet_max: 4 },
      last_minute: 2,
      suspended: 2,
    })
    const named = (await brakeOf(service)).refused_instances.map(({ instance_id, count: times }) => [
      instance_id,
      times,
    ])
    expect(named.toSorted()).toEqual([
      ['bot-3', 2],
      ['bot-4', 1],
    ])

    service.clock.advance(10 * hourMs)
    await touch(service, 'bot-5')
    expect(await suspended(service)).toEqual(['bot-1', 'bot-2'])
    const viewer = await service.createKey('viewer')
    const agent = await service.createKey('agent', ['bot-6'])
    for (const { key } of [viewer, agent]) expect((await release(service, undefined, key)).status).toBe(403)
    for (const body of [
      {},
      { action: 'release' },
      { action: 'release', reason: ' ' },
      { action: 'engage', reason: 'x' },
    ]) {
      expect((await release(service, body)).status).toBe(400)
    }
    const operator = await service.createKey('operator')
    expect((await release(service, undefined, operator.key)).body).toMatchObject({
      engaged: false,
      engaged_at: null,
      refused: 0,
    })
    expect(await release(service)).toMatchObject({ status: 409, headers: { 'x-error-code': 'conflict' } })
    expect(await service.rows(`select actor, reason from audit_log where action = 'brake.release'`)).toEqual([
      { actor: operator.id, reason: 'Checked' },
    ])
    expect(await eventsOf(service, 'brake_released')).toHaveLength(1)
    await touch(service, 'bot-5')
    expect(await suspended(service)).toEqual(['bot-1', 'bot-2', 'bot-5'])
  })

  it('allows one suspension in a fleet of three, and engages at the second one', async () => {
    await using service = await openWithDecoy(decoyEnv, 3)
    await touch(service, 'bot-1')
    service.clock.advance(2 * minuteMs)
    await touch(service, 'bot-2')
    expect(await suspended(service)).toEqual(['bot-1'])
    expect((await brakeOf(service)).engaged).toBe(true)
  })

  it('does not count suspensions by a person', async () => {
    await using service = await openWithDecoy(decoyEnv, 20)
    for (const id of ['bot-1', 'bot-2', 'bot-3'])
      await service.call('POST', `/api/kill/${id}`, { body: { reason: 'x' } })
    await touch(service, 'bot-4')
    await touch(service, 'bot-5')
    expect(await suspended(service)).toHaveLength(5)
    expect((await brakeOf(service)).engaged).toBe(false)
  })

  it('names at most 100 agents that it left running, and counts the others', async () => {
    await using service = await openWithDecoy({ ...decoyEnv, WARDLINE_AUTO_SUSPEND_PER_MINUTE: '1' }, 130)
    for (let index = 0; index < 130; index++) await touch(service, `bot-${index}`)
    const brake = await brakeOf(service)
    expect(brake.refused).toBe(129)
    expect(brake.refused_instances).toHaveLength(100)
    expect(await eventsOf(service, 'brake_engaged')).toHaveLength(1)
    expect(await count(service, 'honeypot_hits')).toBe(130)
  })

  it('keeps the limit when two processes suspend at the same time', async () => {
    await using service = await openWithDecoy({ ...decoyEnv, WARDLINE_AUTO_SUSPEND_PER_MINUTE: '3' }, 60)
    const { dataDir } = service.deps.config
    await using other = await openTestService({
      dataDir,
      clock: service.clock,
      env: { ...decoyEnv, WARDLINE_AUTO_SUSPEND_PER_MINUTE: '3' },
    })
    for (let round = 0; round < 3; round++) {
      const ids = Array.from({ length: 8 }, (_, index) => `bot-${round * 8 + index}`)
      const before = (await suspended(service)).length
      const answers = await Promise.all(ids.map((id, index) => touch(index % 2 === 0 ? service : other, id)))
      expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]))
      expect((await suspended(service)).length - before).toBe(round < 2 ? 3 : 0)
      expect((await brakeOf(other)).engaged).toBe(true)
      expect(await eventsOf(service, 'brake_engaged')).toHaveLength(Math.min(3, round + 1))
      if (round === 2) break
      await release(service)
      service.clock.advance(2 * minuteMs)
    }
  })

  it('keeps the limits in random schedules of agents, operators and processes', async () => {
    const seed = Math.floor(Math.random() * 2 ** 31)
    const draw = seededDraws(seed)
    const below = (bound: number) => Math.floor(draw() * bound)
    const limits = { perMinute: 3, fleetPercent: 15, fleetMin: 1 }
    const env = { ...decoyEnv, WARDLINE_AUTO_SUSPEND_PER_MINUTE: '3', WARDLINE_AUTO_SUSPEND_FLEET_PERCENT: '15' }
    const agents = 40
    await using service = await openWithDecoy(env, agents)
    const { dataDir } = service.deps.config
    await using second = await openTestService({ dataDir, clock: service.clock, env })
    await using third = await openTestService({ dataDir, clock: service.clock, env })
    const processes = [service, second, third]
    const rounds = effort(10, 300)
    let automatic = 0
    for (let round = 0; round < rounds; round++) {
      const steps = Array.from({ length: 1 + below(8) }, () => {
        const process = processes[below(processes.length)]!
        const id = `bot-${below(agents)}`
        const chance = below(10)
        if (chance < 5) return touch(process, id)
        if (chance < 7) return release(process)
        if (chance < 9) return process.call('POST', `/api/resume/${id}`)
        return process.call('POST', `/api/kill/${id}`, { body: { reason: 'by hand' } })
      })
      const answers = await Promise.all(steps)
      expect(
        answers.filter(({ status }) => status >= 500),
        `seed ${seed}`,
      ).toEqual([])
      const rows = await service.rows<{ instance_id: string; requested_at: number; resumed_at: number | null }>(
        'select instance_id, requested_at, resumed_at from suspensions where event_id is not null',
      )
      automatic = rows.length
      const now = service.clock.now()
      const recent = rows.filter(({ requested_at }) => Number(requested_at) > now - minuteMs)
      const agentsOfMinute = new Set(recent.map(({ instance_id }) => instance_id))
      expect(agentsOfMinute.size, `seed ${seed}`).toBeLessThanOrEqual(limits.perMinute)
      expect(rows.filter(({ resumed_at }) => resumed_at === null).length, `seed ${seed}`).toBeLessThanOrEqual(
        fleetMax(agents, limits),
      )
      const brake = await brakeOf(processes[below(processes.length)]!)
      const engaged = await count(service, `events where event_type = 'brake_engaged'`)
      const released = await count(service, `events where event_type = 'brake_released'`)
      expect(engaged - released, `seed ${seed}`).toBe(brake.engaged ? 1 : 0)
      service.clock.advance(below(40_000))
    }
    console.log(
      `brake: seed ${seed}, ${rounds} rounds over 3 processes, ${automatic} automatic suspensions, ${await count(service, 'honeypot_hits')} hits, never more than 3 a minute or ${fleetMax(agents, limits)} at a time`,
    )
  })
})
