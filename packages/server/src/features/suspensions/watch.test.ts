import type {
  EventRow,
  FleetInstance,
  InstanceDetail,
  SharedFleet,
  Suspension,
  SuspensionCounts,
} from '@wardline/contract'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { listenOnFreePort, openControlStream } from '../../testing/control-stream.ts'
import { adminKey, openTestService, type TestService } from '../../testing/service.ts'
import { indexEvents } from '../events/event-index.ts'

const second = 1_000
const id = 'bot'

let service: TestService
beforeEach(async () => {
  service = await openTestService()
})
afterEach(() => service[Symbol.asyncDispose]())

const beat = (more: object = {}) =>
  service.call('POST', '/api/heartbeat', { body: { instance_id: id, name: 'Bot', ...more } })
const kill = (target = id) => service.call('POST', `/api/kill/${target}`, { body: { reason: 'Leak' } })
const resume = () => service.call('POST', `/api/resume/${id}`)
const poll = (options: { key?: string } = {}) => service.call('GET', `/api/instances/${id}/status`, options)
const ack = (version: number) => service.call('POST', `/api/instances/${id}/ack`, { body: { version } })
const report = (more: object = {}) =>
  service.call('POST', '/api/events', {
    body: { severity: 'info', source: id, event_type: 'tool_call', description: 'x', instance_id: id, ...more },
  })
const watch = () => service.services.suspensionWatch.run()
/** Advances the clock and runs the watch every second, the interval of its timer. */
async function pass(seconds: number): Promise<void> {
  for (let passed = 0; passed < seconds; passed++) {
    service.clock.advance(second)
    await watch()
  }
}
async function suspensions(from = service): Promise<Suspension[]> {
  await from.services.suspensionFacts.write()
  return (await from.call<{ suspensions: Suspension[] }>('GET', `/api/instances/${id}/suspensions`)).body.suspensions
}
const state = async () => (await suspensions())[0]!.state
const events = async (type: string) =>
  (await service.call<{ events: EventRow[] }>('GET', `/api/events?event_type=${type}`)).body.events

describe('the stages of a suspension', () => {
  it('are stored with their times and sources', async () => {
    await beat({ control_version: 0 })
    const requested_at = new Date(service.clock.now()).toISOString()
    await kill()
    expect(await suspensions()).toMatchObject([
      { version: 1, state: 'pending', reason: 'Leak', requested_at, stored_at: requested_at, delivered_at: null },
    ])
    service.clock.advance(200)
    await poll()
    service.clock.advance(100)
    await ack(1)
    await pass(29)
    expect(await state()).toBe('confirmed')
    await pass(1)
    const [row] = await suspensions()
    const after = (time: string | null) => Date.parse(time!) - Date.parse(requested_at)
    expect(row).toMatchObject({ state: 'proven', delivered_by: 'poll', acknowledged_by: 'ack', resumed_at: null })
    expect(row!.published_by).toMatch(/:\d+$/)
    expect([row!.published_at, row!.delivered_at, row!.acknowledged_at, row!.silent_at].map(after)).toEqual([
      0, 200, 300, 30_300,
    ])
    await resume()
    await watch()
    expect(await suspensions()).toMatchObject([{ state: 'proven', resumed_at: expect.any(String) }])
  })

  it('record a delivery over the control stream, also over one that opens after the kill', async () => {
    const url = await listenOnFreePort(service.app)
    await beat({ control_version: 0 })
    const stream = await openControlStream(url, id)
    await kill()
    await expect.poll(async () => (await suspensions())[0]!.delivered_by).toBe('stream')
    await stream[Symbol.asyncDispose]()
    await resume()
    await kill()
    expect((await suspensions())[0]).toMatchObject({ version: 3, delivered_at: null })
    await using _later = await openControlStream(url, id)
    await expect.poll(async () => (await suspensions())[0]!.delivered_by).toBe('stream')
  })

  it('accept the version in a heartbeat as an acknowledgement', async () => {
    await beat({ control_version: 0 })
    await kill()
    await beat({ control_version: 0 })
    expect((await suspensions())[0]!.acknowledged_at).toBeNull()
    service.clock.advance(second)
    await beat({ control_version: 1 })
    service.clock.advance(second)
    await beat({ control_version: 1 })
    const [row] = await suspensions()
    expect(row).toMatchObject({ state: 'confirmed', acknowledged_by: 'heartbeat' })
    expect(Date.parse(row!.acknowledged_at!) - Date.parse(row!.requested_at)).toBe(second)
  })

  it('ignore an acknowledgement that arrives after the resume', async () => {
    await beat({ control_version: 0 })
    await kill()
    await resume()
    service.clock.advance(second)
    await beat({ control_version: 1 })
    await pass(40)
    expect(await suspensions()).toMatchObject([{ acknowledged_at: null, silent_at: null }])
  })

  it('do not count a poll by a viewer as a delivery', async () => {
    await beat()
    await kill()
    const { key } = await service.createKey('viewer')
    await poll({ key })
    expect((await suspensions())[0]!.delivered_at).toBeNull()
    await poll({ key: adminKey })
    expect((await suspensions())[0]!.delivered_by).toBe('poll')
  })

  it('keep the time of the first report of each stage', async () => {
    await beat({ control_version: 0 })
    await kill()
    await poll()
    await ack(1)
    const before = await suspensions()
    await using other = await openTestService({ dataDir: service.deps.config.dataDir, clock: service.clock })
    service.clock.advance(5 * second)
    await other.call('GET', `/api/instances/${id}/status`)
    await other.call('POST', `/api/instances/${id}/ack`, { body: { version: 1 } })
    await beat({ control_version: 1 })
    expect(await suspensions(other)).toEqual(before)
  })

  it('are written after the database accepts writes again', async () => {
    await beat()
    await kill()
    await suspensions()
    const allow = await service.refuse('update', 'suspensions')
    await poll()
    await expect(service.services.suspensionFacts.write()).rejects.toThrow()
    await allow()
    expect((await suspensions())[0]!.delivered_by).toBe('poll')
  })

  it('return 404 for an unknown instance', async () => {
    expect((await service.call('GET', '/api/instances/nobody/suspensions')).status).toBe(404)
  })
})

describe('the state', () => {
  it('is part of the fleet and of the instance while the instance is suspended', async () => {
    const shown = async () => {
      const list = await service.call<{ instances: FleetInstance[] }>('GET', '/api/instances')
      const one = await service.call<InstanceDetail>('GET', `/api/instances/${id}`)
      const shared = await service.call<SharedFleet>('GET', '/api/fleet')
      const all = [list.body.instances[0]!, one.body, shared.body.instances[0]!].map(({ suspension }) => suspension)
      expect(all[1]).toEqual(all[0])
      expect(all[2]).toEqual(all[0])
      return all[0]
    }
    await beat({ control_version: 0 })
    expect(await shown()).toBeNull()
    await kill()
    const since = () => new Date(service.clock.now()).toISOString()
    expect(await shown()).toEqual({ state: 'pending', since: since() })
    service.clock.advance(second)
    await ack(1)
    expect(await shown()).toEqual({ state: 'confirmed', since: since() })
    await resume()
    expect(await shown()).toBeNull()
  })

  it('of a client that cannot acknowledge is delivered, then quiet, without a report', async () => {
    await beat()
    await kill()
    expect(await state()).toBe('pending')
    await poll()
    expect(await state()).toBe('delivered')
    await pass(5)
    await report()
    await pass(89)
    expect(await state()).toBe('delivered')
    await pass(1)
    expect(await state()).toBe('quiet')
    expect(await events('kill_unconfirmed')).toEqual([])
  })

  it('is unconfirmed while an agent that supports acknowledgements does not send one', async () => {
    await beat({ control_version: 0 })
    await kill()
    await poll()
    await pass(34)
    expect(await state()).toBe('pending')
    expect(await events('kill_unconfirmed')).toEqual([])
    await pass(5)
    expect(await state()).toBe('unconfirmed')
    expect(await events('kill_unconfirmed')).toMatchObject([
      { severity: 'critical', by_service: true, instance_id: id, metadata: { version: 1, delivered: true } },
    ])
    await ack(1)
    expect(await state()).toBe('confirmed')
    await pass(30)
    expect(await state()).toBe('proven')
    expect(await events('kill_unconfirmed')).toHaveLength(1)
  })

  it('of a client that cannot acknowledge is unconfirmed only until the suspension is delivered', async () => {
    await beat()
    await kill()
    await pass(36)
    expect(await state()).toBe('unconfirmed')
    expect(await events('kill_unconfirmed')).toMatchObject([{ metadata: { delivered: false } }])
    await poll()
    expect(await state()).toBe('delivered')
  })

  // Otherwise setting the clock forward would raise an alert for each recent kill and prove unobserved silence.
  it('does not change when the clock is set forward', async () => {
    await beat({ control_version: 0 })
    await watch()
    await kill()
    service.clock.jump(3_600_000)
    await watch()
    await pass(58)
    expect(await events('kill_unconfirmed')).toEqual([])
    await ack(1)
    service.clock.jump(3_600_000)
    await watch()
    expect(await state()).toBe('confirmed')
  })
})

describe('silence', () => {
  beforeEach(async () => {
    await beat({ control_version: 0 })
    await kill()
    await poll()
    await ack(1)
  })

  it('starts over with each event', async () => {
    await pass(5)
    await report()
    await pass(29)
    expect(await state()).toBe('confirmed')
    await pass(1)
    expect(await state()).toBe('proven')
  })

  it('is not interrupted by heartbeats, acknowledgements or the agent_suspended event', async () => {
    await pass(15)
    await beat({ control_version: 1 })
    await ack(1)
    await report({ event_type: 'agent_suspended' })
    await pass(15)
    expect(await state()).toBe('proven')
  })

  // After a restart the memory is empty, so the log decides.
  it('is judged from the log by a process that received none of the requests', async () => {
    await pass(1)
    await report()
    await using other = await openTestService({ dataDir: service.deps.config.dataDir, clock: service.clock })
    service.clock.advance(29 * second)
    await other.services.suspensionWatch.run()
    expect(await state()).toBe('confirmed')
    service.clock.advance(second)
    await other.services.suspensionWatch.run()
    expect(await state()).toBe('proven')
  })

  it('is refuted by an event within the grace that is stored after the proof', async () => {
    await pass(30)
    expect(await state()).toBe('proven')
    await report()
    // As with a slow commit: the event was created before the proof.
    await service.execute(`update events set created_at = created_at - 27000 where seq = (select max(seq) from events)`)
    await pass(1)
    expect(await state()).toBe('violated')
  })
})

describe('activity while suspended', () => {
  const breaches = () => events('activity_while_suspended')

  // Not only a minute later, when all suspended agents are looked at.
  it('is reported by the next run if the database fails before the log is read', async () => {
    await beat({ control_version: 0 })
    await kill()
    await poll()
    await ack(1)
    await pass(11)
    await report()
    const failing = vi.spyOn(service.services.suspendedAgents, 'writeUnlogged').mockRejectedValueOnce(new Error('away'))
    await expect(watch()).rejects.toThrow('away')
    failing.mockRestore()
    await pass(1)
    expect(await state()).toBe('violated')
  })

  it('is reported as a breach with a count at most once a minute, and the state stays violated', async () => {
    await beat({ control_version: 0 })
    await kill()
    await poll()
    await ack(1)
    await pass(11)
    for (const session_id of ['a', 'b']) await report({ session_id })
    await pass(1)
    expect(await state()).toBe('violated')
    const first_at = new Date(service.clock.now() - second).toISOString()
    expect(await breaches()).toMatchObject([
      { severity: 'breach', by_service: true, instance_id: id, metadata: { occurrences: 2, total: 2, first_at } },
    ])
    for (let count = 0; count < 30; count++) {
      await report()
      await pass(1)
    }
    expect(await breaches()).toHaveLength(1)
    await pass(40)
    expect(await breaches()).toMatchObject([{ metadata: { occurrences: 30, total: 32, first_at } }, {}])
    await pass(70)
    expect(await breaches()).toHaveLength(2)
    expect(await suspensions()).toMatchObject([{ state: 'violated', breaches: 32, silent_at: null }])
    await resume()
    await pass(1)
    expect(await state()).toBe('violated')
  })

  it('is no breach before the delivery or within ten seconds after it', async () => {
    await beat()
    await kill()
    await pass(20)
    await report()
    await poll()
    await pass(10)
    await report()
    await pass(5)
    expect(await breaches()).toEqual([])
    expect(await state()).toBe('delivered')
  })

  // An agent that neither polls nor acknowledges would otherwise go on for ever behind one kill_unconfirmed.
  it.each([
    ['events', () => report()],
    ['events without an instance id', () => report({ instance_id: undefined, source: 'x' })],
    ['decoy checks', () => service.call('POST', '/api/honeypots/check/key', { body: { key: 'x' } })],
  ])('is a breach 35 seconds after the kill for %s of an agent that neither polls nor listens', async (_, act) => {
    await beat({ control_version: 0 })
    await kill()
    await watch()
    for (let passed = 0; passed < 35; passed += 5) {
      await pass(5)
      await act()
    }
    await watch()
    expect(await breaches()).toEqual([])
    expect(await state()).toBe('unconfirmed')
    await pass(1)
    for (let count = 0; count < 5; count++) await act()
    await pass(1)
    expect(await breaches()).toMatchObject([
      {
        severity: 'breach',
        description: expect.stringMatching(/not delivered|only by a header of answers/),
        metadata: { occurrences: 5 },
      },
    ])
    expect(await state()).toBe('violated')
    expect(await events('kill_unconfirmed')).toHaveLength(1)
  })

  it('is no breach of an agent that polls every 30 seconds and finishes its calls within ten', async () => {
    await beat({ control_version: 0 })
    await poll()
    await kill()
    for (let passed = 0; passed < 30; passed++) {
      await pass(1)
      await report()
    }
    await poll()
    await ack(1)
    for (let passed = 0; passed < 10; passed++) {
      await pass(1)
      await report()
    }
    await pass(31)
    expect(await breaches()).toEqual([])
    expect(await state()).toBe('proven')
  })

  it('is no breach when it is of another agent or after the resume', async () => {
    await beat()
    await service.call('POST', '/api/heartbeat', { body: { instance_id: 'other', name: 'Other' } })
    await kill()
    await poll()
    await pass(20)
    await report({ instance_id: 'other', source: 'other' })
    await resume()
    await pass(1)
    await report()
    await pass(61)
    expect(await breaches()).toEqual([])
  })

  // A process that was frozen finds both suspensions at once; an event during the first must not count for the second.
  it('counts for the suspension during which it happened when two suspensions of an agent are judged together', async () => {
    await using other = await openTestService({ dataDir: service.deps.config.dataDir, clock: service.clock })
    await other.services.suspensionWatch.run()
    await beat({ control_version: 0 })
    await kill()
    await poll()
    await ack(1)
    await suspensions()
    service.clock.advance(20 * second)
    await report()
    service.clock.advance(second)
    await resume()
    service.clock.advance(second)
    await kill()
    await poll()
    await ack(3)
    await suspensions()
    service.clock.advance(second)
    await other.services.suspensionWatch.run()
    expect(await suspensions()).toMatchObject([
      { version: 3, state: 'confirmed', breaches: 0 },
      { version: 1, state: 'violated', breaches: 1 },
    ])
  })

  it('is detected without an instance id when the key registered only this instance', async () => {
    await beat()
    await kill()
    await poll()
    await pass(11)
    const hidden = { instance_id: undefined, source: 'someone' }
    const { key } = await service.createKey('admin')
    const body = { severity: 'info', source: id, event_type: 'tool_call', description: 'x' }
    expect((await service.call('POST', '/api/events', { key, body })).status).toBe(201)
    await pass(1)
    expect(await breaches()).toEqual([])
    await report(hidden)
    await report({ ...hidden, event_type: 'agent_suspended' })
    await pass(1)
    expect(await breaches()).toMatchObject([{ instance_id: id, metadata: { occurrences: 1 } }])
    await report(hidden)
    await pass(61)
    expect(await suspensions()).toMatchObject([{ state: 'violated', breaches: 2 }])
  })

  it('is detected under a source that the agent used before, unless other agents use it too', async () => {
    for (const name of [id, 'other']) {
      await service.call('POST', '/api/heartbeat', { body: { instance_id: name, name } })
    }
    await report({ source: 'worker' })
    await report({ source: 'shared' })
    await indexEvents(service.deps.database)
    await kill()
    await poll()
    await pass(11)
    await report({ instance_id: 'other', source: 'shared' })
    await report({ instance_id: undefined, source: 'shared' })
    await pass(1)
    expect(await breaches()).toEqual([])
    await report({ instance_id: undefined, source: 'worker' })
    await pass(1)
    expect(await breaches()).toHaveLength(1)
    expect(await state()).toBe('violated')
  })

  it('is reported as a breach when the agent touches a decoy', async () => {
    await beat()
    const decoy = { instanceId: id, type: 'file_path', path: '/srv/secret/id_rsa' }
    await service.call('POST', '/api/honeypots', { body: decoy })
    await service.services.decoyChecks.refresh()
    await kill()
    await poll()
    await pass(20)
    const check = { path: decoy.path, meta: { instance_id: id } }
    await service.call('POST', '/api/honeypots/check/path', { body: check })
    await pass(1)
    expect(await breaches()).toHaveLength(1)
  })

  // An agent that acknowledged and goes on reports nothing but its stop, and still checks what it is about to use.
  it.each([
    ['key', { key: 'AKIA' }],
    ['path', { path: '/srv/notes.txt' }],
  ])('is detected by decoy checks of a %s, whichever instance a key of one instance names', async (kind, body) => {
    const own = await service.createKey('agent', [id])
    await beat({ control_version: 0 })
    await kill()
    await poll()
    await ack(1)
    const check = (key: string, meta?: object) =>
      service.call('POST', `/api/honeypots/check/${kind}`, { key, body: { ...body, ...(meta ? { meta } : {}) } })
    await pass(9)
    await check(own.key)
    await pass(22)
    expect(await state()).toBe('confirmed')
    for (const meta of [undefined, { instance_id: id }, { instance_id: 'someone', tool: 'Bash' }])
      await check(own.key, meta)
    await pass(1)
    expect(await breaches()).toMatchObject([{ instance_id: id, metadata: { occurrences: 3 } }])
    expect(await state()).toBe('violated')
  })

  it('is not shown by decoy checks of people and of other agents, or by one within ten seconds after the delivery', async () => {
    await service.call('POST', '/api/heartbeat', { body: { instance_id: 'other', name: 'Other' } })
    const own = await service.createKey('agent', [id])
    const other = await service.createKey('agent', ['other'])
    const both = await service.createKey('agent', [id, 'other'])
    await beat({ control_version: 0 })
    await kill()
    await poll()
    await ack(1)
    await pass(5)
    const check = (key: string, meta?: object) =>
      service.call('POST', '/api/honeypots/check/key', { key, body: { key: 'x', ...(meta ? { meta } : {}) } })
    expect((await check(own.key)).status).toBe(200)
    await pass(15)
    await check(other.key)
    await check(other.key, { instance_id: id })
    await check(both.key, { instance_id: 'other' })
    await check(adminKey)
    const session = await service.signIn()
    const headers = { ...session.headers, 'sec-fetch-site': 'same-origin' }
    const body = { key: 'x', meta: { instance_id: id } }
    const byPerson = await service.call('POST', '/api/honeypots/check/key', { key: null, headers, body })
    expect(byPerson.status).toBe(200)
    await pass(15)
    expect(await state()).toBe('proven')
    expect(await breaches()).toEqual([])
  })

  // A decoy that is touched by a tool that is ignored is no breach by itself, but a call all the same.
  it('is detected by a hit that a rule ignores, and counts a hit once', async () => {
    const { body: decoy } = await service.call<{ key: string }>('POST', '/api/honeypots', {
      body: { instanceId: id, type: 'api_key', keyType: 'openai' },
    })
    const until = new Date(service.clock.now() + 3_600_000).toISOString()
    await service.call('POST', '/api/honeypots/ignores', { body: { tool: 'backup', reason: 'Nightly', until } })
    await beat({ control_version: 0 })
    await kill()
    await poll()
    await ack(1)
    await pass(20)
    const touch = (tool: string) =>
      service.call('POST', '/api/honeypots/check/key', { body: { key: decoy.key, meta: { instance_id: id, tool } } })
    await touch('backup')
    await touch('Bash')
    await pass(1)
    expect(await breaches()).toMatchObject([{ metadata: { occurrences: 2 } }])
  })

  // A report of the stop is no activity, so an agent that goes on would give all its reports that type.
  it.each(['toolName', 'tool', 'tool_name'])(
    'is detected by reports of a stop that name a tool in %s',
    async (field) => {
      await beat({ control_version: 0 })
      await kill()
      await poll()
      await ack(1)
      await pass(15)
      for (const event_type of ['agent_stopped', 'agent_suspended', 'sdk_events_dropped', 'control_version_mismatch']) {
        await report({ event_type, metadata: { count: 1, [field]: null } })
      }
      await pass(15)
      expect(await state()).toBe('proven')
      await report({ event_type: 'agent_stopped', metadata: { [field]: 'Bash' } })
      await indexEvents(service.deps.database)
      await report({ event_type: 'sdk_events_dropped', metadata: { [field]: { name: 'Bash' } } })
      await report({ event_type: 'agent_stopped', metadata: { [field]: 'Bash' }, instance_id: undefined, source: 'x' })
      await pass(1)
      expect(await breaches()).toMatchObject([{ metadata: { occurrences: 3 } }])
      expect(await state()).toBe('violated')
    },
  )

  it('is found in the log after a restart, and reported once across all processes', async () => {
    await beat({ control_version: 0 })
    await kill()
    await poll()
    await suspensions()
    service.clock.advance(20 * second)
    await report()
    await indexEvents(service.deps.database)
    await report()
    const { dataDir } = service.deps.config
    await using second_ = await openTestService({ dataDir, clock: service.clock })
    await using third = await openTestService({ dataDir, clock: service.clock })
    await Promise.all([second_, third].map(({ services }) => services.suspensionWatch.run()))
    expect(await breaches()).toMatchObject([{ metadata: { occurrences: 2 } }])
    await watch()
    expect(await breaches()).toHaveLength(1)
  })
})

// The watch has nothing due for a proven suspension, so only the check at startup finds the event.
it('refutes a proof with an event that was stored right before a restart', async () => {
  await beat({ control_version: 0 })
  await kill()
  await poll()
  await ack(1)
  await pass(30)
  expect(await state()).toBe('proven')
  expect(await service.rows('select look_at from suspensions')).toEqual([{ look_at: null }])
  await report()
  await using other = await openTestService({ dataDir: service.deps.config.dataDir, clock: service.clock })
  await other.services.suspensionWatch.run()
  expect(await state()).toBe('violated')
})

// During a rolling upgrade, a process of an earlier version without these rows handles some requests.
describe('a process of an earlier version', () => {
  const control = (suspended: boolean, version: number) =>
    service.execute(`update instances set suspended = ${Number(suspended)}, control_version = ${version},
      suspension_reason = ${suspended ? "'Leak'" : 'null'}, control_changed_at = ${service.clock.now()}`)

  it('ends a suspension with its resume, and later events are no breach', async () => {
    await beat({ control_version: 0 })
    await kill()
    await poll()
    await ack(1)
    await pass(40)
    expect(await state()).toBe('proven')
    await control(false, 2)
    const resumed_at = new Date(service.clock.now()).toISOString()
    await pass(61)
    await report()
    await pass(61)
    expect(await suspensions()).toMatchObject([{ version: 1, state: 'proven', breaches: 0, resumed_at }])
    expect(await events('activity_while_suspended')).toEqual([])
  })

  it('suspends an agent with its kill, which is watched like any other', async () => {
    await beat({ control_version: 0 })
    await watch()
    await control(true, 1)
    const requested_at = new Date(service.clock.now()).toISOString()
    await pass(61)
    expect(await suspensions()).toMatchObject([{ version: 1, state: 'unconfirmed', reason: 'Leak', requested_at }])
    await ack(1)
    await pass(60)
    expect(await suspensions()).toMatchObject([{ version: 1, state: 'proven', resumed_at: null }])
    await control(false, 2)
    await control(true, 3)
    await pass(61)
    expect(await suspensions()).toMatchObject([
      { version: 3, state: 'unconfirmed', resumed_at: null },
      { version: 1, state: 'proven', resumed_at: expect.any(String) },
    ])
  })
})

describe('alerts', () => {
  it('about the result of a kill are written once each', async () => {
    await using alerting = await openTestService({ env: { SLACK_WEBHOOK_URL: 'http://127.0.0.1:9/none' } })
    await alerting.call('POST', '/api/heartbeat', { body: { instance_id: id, name: 'Bot', control_version: 0 } })
    await alerting.call('POST', `/api/kill/${id}`, { body: { reason: 'Leak' } })
    const { suspensionWatch } = alerting.services
    alerting.clock.advance(36 * second)
    await suspensionWatch.run()
    await suspensionWatch.run()
    await alerting.call('POST', `/api/instances/${id}/ack`, { body: { version: 1 } })
    await suspensionWatch.run()
    await suspensionWatch.run()
    const rows = await alerting.rows('select event_type, by_service from alerts order by seq')
    expect(rows).toEqual(
      ['instance_suspended', 'kill_unconfirmed', 'kill_confirmed'].map((event_type) => ({ event_type, by_service: 1 })),
    )
  })
})

it('shows percentiles and the number of measurements of each stage, and counts the current states', async () => {
  const figures = async () => (await service.call<SuspensionCounts>('GET', '/api/suspension-counts')).body
  expect(await figures()).toMatchObject({ suspensions: 0, states: [], settings: { silence_seconds: 30 } })
  for (let number = 1; number <= 4; number++) {
    const bot = `bot-${number}`
    await service.call('POST', '/api/heartbeat', { body: { instance_id: bot, name: bot, control_version: 0 } })
    await kill(bot)
    if (number === 4) continue
    service.clock.advance(number * 100)
    await service.call('POST', `/api/instances/${bot}/ack`, { body: { version: 1 } })
  }
  await service.services.suspensionFacts.write()
  const { stages, states, suspensions: count } = await figures()
  expect(count).toBe(4)
  expect(stages.find(({ stage }) => stage === 'acknowledged')).toEqual({
    stage: 'acknowledged',
    measured: 3,
    p50_ms: 200,
    p95_ms: 300,
    p99_ms: 300,
  })
  expect(stages.find(({ stage }) => stage === 'silent')).toMatchObject({ measured: 0, p50_ms: null })
  expect(states).toEqual([
    { state: 'pending', count: 1 },
    { state: 'confirmed', count: 3 },
  ])
  service.clock.advance(86_400_001)
  expect((await figures()).suspensions).toBe(0)
})

describe('a request by a person', () => {
  it.each(['viewer', 'operator'] as const)('with a key of scope %s does not count as the agent', async (scope) => {
    const url = await listenOnFreePort(service.app)
    const { key } = await service.createKey(scope)
    await beat()
    await kill()
    await poll({ key })
    await using _stream = await openControlStream(url, id, '?understands=drill', key)
    expect(await suspensions()).toMatchObject([{ state: 'pending', delivered_at: null }])
    expect(service.services.controlStream.understood(id)).toBeUndefined()
    await poll()
    expect(await suspensions()).toMatchObject([{ delivered_by: 'poll' }])
  })
})
