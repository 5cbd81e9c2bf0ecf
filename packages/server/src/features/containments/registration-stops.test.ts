import type { Containment, InstanceDetail, Suspension } from '@wardline/contract'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { minuteMs } from '../../clock.ts'
import { listenOnFreePort, openControlStream } from '../../testing/control-stream.ts'
import { openTestService, type TestService } from '../../testing/service.ts'

const open: TestService[] = []
let service: TestService
let codex: { id: string; key: string }
let other: { id: string; key: string }

async function openOther(env: Record<string, string> = {}): Promise<TestService> {
  const { dataDir } = service.deps.config
  const opened = await openTestService({ dataDir, clock: service.clock, env })
  open.push(opened)
  return opened
}

beforeEach(async () => {
  service = await openTestService()
  open.push(service)
  codex = await service.createKey('agent', ['codex-*'])
  other = await service.createKey('agent', ['batch-*'])
  await beat('codex-1', codex)
  await beat('codex-b', codex)
  await beat('batch-1', other)
})
afterEach(async () => {
  for (const one of open.splice(0).reverse()) await one[Symbol.asyncDispose]()
})

const beat = (id: string, { key }: { key: string }, more: object = {}, on = service) =>
  on.call('POST', '/api/heartbeat', { key, body: { instance_id: id, name: id, ...more } })

async function contain(selector: object, agents: number, more: object = {}, on = service): Promise<string> {
  const noun = agents === 1 ? 'agent' : 'agents'
  const body = { action: 'suspend', selector, reason: 'It spreads', confirm: `suspend ${agents} ${noun}`, ...more }
  const answer = await on.call<Containment & { error?: string }>('POST', '/api/containments', { body })
  expect(answer.body.error).toBeUndefined()
  await on.services.containmentWork.whenIdle()
  return answer.body.id
}
const resume = (selector: object, agents: number) =>
  contain(selector, agents, { action: 'resume', confirm: `resume ${agents} ${agents === 1 ? 'agent' : 'agents'}` })
const read = async (id: string) => (await service.call<Containment>('GET', `/api/containments/${id}`)).body
const statusOf = async (id: string) => (await service.call<InstanceDetail>('GET', `/api/instances/${id}`)).body.status

// An agent that is stopped registers under another name with the same key and goes on.
describe('while a containment holds', () => {
  it('an instance that registers with a prefix key of its agents begins suspended, in one transaction', async () => {
    const id = await contain({ all: true }, 3)
    const messages: object[] = []
    service.deps.bus.onControl((message) => messages.push(message))
    for (const table of ['suspensions', 'audit_log', 'containment_parts']) {
      const allow = await service.refuse('insert', table)
      expect((await beat('codex-2', codex)).status, table).toBe(500)
      expect(await service.rows(`select id from instances where id = 'codex-2'`), table).toEqual([])
      await allow()
    }
    const answer = await beat('codex-2', codex)
    expect([answer.status, answer.body]).toEqual([200, { ok: true }])
    const reason = `Registered while containment ${id} holds agents of its key: It spreads`
    expect((await service.call('GET', '/api/instances/codex-2/status', { key: codex.key })).body).toEqual({
      suspended: true,
      reason,
    })
    expect(messages).toMatchObject([{ instance_id: 'codex-2', action: 'suspend', version: 1, reason }])
    const suspensions = await service.call<{ suspensions: Suspension[] }>('GET', '/api/instances/codex-2/suspensions')
    expect(suspensions.body.suspensions).toMatchObject([{ version: 1, reason, by: 'system', containment_id: id }])
    const audit = await service.call<{ entries: object[] }>('GET', '/api/audit?target=codex-2')
    expect(audit.body.entries).toMatchObject([
      {
        action: 'instance.suspend',
        actor: 'system',
        reason,
        before: null,
        after: { suspended: true, containment: id },
      },
    ])
    expect(await read(id)).toMatchObject({ requested: 4, changed: 4, joined: ['codex-2'] })
  })

  it('the control stream of a newcomer begins with its suspension, and its poll names the version', async () => {
    await contain({ all: true }, 3)
    await beat('codex-2', codex)
    await using stream = await openControlStream(await listenOnFreePort(service.app), 'codex-2', '', codex.key)
    expect(stream.messages()).toMatchObject([{ instance_id: 'codex-2', action: 'suspend', version: 1 }])
    const poll = await service.call('GET', '/api/instances/codex-2/status', { key: codex.key })
    expect(poll.headers.etag).toBe('W/"1"')
  })

  it('instances of other keys are registered as ever, and so are known ones', async () => {
    await contain({ instances: ['codex-1'] }, 1)
    await beat('batch-2', other)
    await service.call('POST', '/api/heartbeat', { body: { instance_id: 'codex-admin', name: 'x' } })
    await beat('codex-b', codex)
    expect([await statusOf('batch-2'), await statusOf('codex-admin'), await statusOf('codex-b')]).toEqual(
      Array(3).fill('active'),
    )
    await beat('codex-2', codex)
    expect(await statusOf('codex-2')).toBe('suspended')
  })

  it('the suspension is above the version that the newcomer claims, and above that of a deleted instance', async () => {
    await service.call('POST', '/api/kill/codex-b', { body: { reason: 'x' } })
    await service.call('POST', '/api/resume/codex-b')
    expect((await service.call('DELETE', '/api/instances/codex-b')).status).toBe(200)
    await contain({ all: true }, 2)
    await beat('codex-b', codex)
    await beat('codex-2', codex, { control_version: 7 })
    const versions = await service.rows(
      `select id, control_version from instances where id in ('codex-2', 'codex-b') order by id`,
    )
    expect(versions).toEqual([
      { id: 'codex-2', control_version: 8 },
      { id: 'codex-b', control_version: 3 },
    ])
  })

  it('the newcomer needs two operators where its containment does, and the strongest of several holds it', async () => {
    await contain({ instances: ['codex-1'] }, 1)
    const strict = await contain({ instances: ['codex-b'] }, 1, { two_person: true })
    await contain({ instances: ['batch-1'] }, 1)
    await beat('codex-2', codex)
    expect((await read(strict)).joined).toEqual(['codex-2'])
    expect((await service.call('POST', '/api/resume/codex-2')).status).toBe(409)
  })

  it('the newcomer counts as missing until it confirms, after the stop was reported as complete', async () => {
    const id = await contain({ instances: ['codex-1'] }, 1)
    const ack = (instance: string) =>
      service.call('POST', `/api/instances/${instance}/ack`, { key: codex.key, body: { version: 1 } })
    await ack('codex-1')
    await service.services.containmentWork.run()
    expect(await read(id)).toMatchObject({ state: 'complete' })
    service.clock.advance(10 * minuteMs)
    await beat('codex-2', codex)
    expect(await read(id)).toMatchObject({ state: 'in_progress', missing: ['codex-2'], missing_count: 1 })
    service.clock.advance(minuteMs)
    await service.services.containmentWork.run()
    expect((await read(id)).state).toBe('partial')
    await ack('codex-2')
    expect(await read(id)).toMatchObject({ state: 'complete', missing_count: 0 })
  })
})

// An agent that is suspended alone before a stop, for which it may see to itself, must not free its key from the stop.
describe.each([
  ['all agents', { all: true }, 3],
  ['the agent', { instances: ['codex-1'] }, 1],
] as const)('a stop of %s holds the key of an agent that', (_name, selector, agents) => {
  const suspendAlone = () => service.call('POST', '/api/kill/codex-1', { body: { reason: 'alone' } })
  const assertHeld = async (id: string) => {
    const status = await service.call<{ reason: string }>('GET', '/api/instances/codex-1/status')
    expect(status.body).toEqual({ suspended: true, reason: 'alone' })
    await beat('codex-2', codex)
    expect(await statusOf('codex-2')).toBe('suspended')
    expect((await read(id)).joined).toEqual(['codex-2'])
  }

  it('was suspended alone before, and leaves its suspension as it is', async () => {
    await suspendAlone()
    const id = await contain(selector, agents)
    expect((await service.rows(`select control_version from instances where id = 'codex-1'`))[0]).toEqual({
      control_version: 1,
    })
    await assertHeld(id)
    await service.call('POST', '/api/resume/codex-1')
    expect(await statusOf('codex-1')).toBe('active')
  })

  it('is suspended alone between the request and the work', async () => {
    const allow = await service.refuse('update', 'containment_parts')
    const id = await contain(selector, agents)
    await suspendAlone()
    await allow()
    await service.services.containmentWork.run()
    await service.services.containmentWork.whenIdle()
    await assertHeld(id)
  })
})

describe('a newcomer', () => {
  const reported = async (id: string) =>
    (await service.rows<{ reported: string | null }>(`select reported from containments where id = '${id}'`))[0]!
      .reported

  // One registration every 20 seconds would otherwise keep the report away for hours.
  it('does not postpone the report about agents that do not confirm', async () => {
    const id = await contain({ instances: ['codex-1'] }, 1)
    for (let round = 0; round < 4; round++) {
      service.clock.advance(10_000)
      await beat(`codex-late-${round}`, codex)
      await service.services.containmentWork.run()
    }
    expect(await reported(id)).toBe('incomplete')
    expect((await read(id)).state).toBe('failed')
  })

  it('has its own time to confirm, in which nothing is reported', async () => {
    const id = await contain({ instances: ['codex-1'] }, 1)
    await service.call('POST', '/api/instances/codex-1/ack', { key: codex.key, body: { version: 1 } })
    await service.services.containmentWork.run()
    service.clock.advance(minuteMs)
    await beat('codex-2', codex)
    await service.services.containmentWork.run()
    expect([await reported(id), (await read(id)).state]).toEqual(['complete', 'in_progress'])
    service.clock.advance(2 * minuteMs)
    await service.services.containmentWork.run()
    expect(await reported(id)).toBe('incomplete')
  })
})

// What is not registered cannot be suspended, so the agent that holds the key answers for it.
describe('while a key is held', () => {
  const event = (instance_id: string) => ({
    severity: 'info',
    source: instance_id,
    event_type: 'tool_call',
    description: 'x',
    instance_id,
    metadata: { tool: 'shell-exec' },
  })
  const breaches = () =>
    service.rows<{ instance_id: string }>(
      `select instance_id from events where event_type = 'activity_while_suspended'`,
    )
  const watch = () => service.services.suspensionWatch.run()

  it.each([
    ['events', (id: string) => service.call('POST', '/api/events', { key: codex.key, body: event(id) })],
    [
      'decoy checks',
      (instance_id: string) =>
        service.call('POST', '/api/honeypots/check/key', { key: codex.key, body: { key: 'x', meta: { instance_id } } }),
    ],
  ])('%s under an id that is not registered are a breach of an agent that it holds', async (_name, act) => {
    await contain({ instances: ['codex-1'] }, 1)
    await watch()
    service.clock.advance(minuteMs)
    await act('codex-b')
    await watch()
    await watch()
    expect(await breaches()).toEqual([])
    expect((await act('codex-ghost')).status).toBeLessThan(300)
    await watch()
    await watch()
    expect(await breaches()).toEqual([{ instance_id: 'codex-1' }])
  })

  it('those of a key whose agent is suspended alone are none', async () => {
    await service.call('POST', '/api/kill/codex-1', { body: { reason: 'x' } })
    await watch()
    service.clock.advance(minuteMs)
    await service.call('POST', '/api/events', { key: codex.key, body: event('codex-ghost') })
    await watch()
    await watch()
    expect(await breaches()).toEqual([])
  })
})

describe('after a containment', () => {
  it('a resume of its selection includes the newcomers, and then new instances begin active', async () => {
    await contain({ all: true }, 3)
    await beat('codex-2', codex)
    await resume({ all: true }, 4)
    expect(await statusOf('codex-2')).toBe('active')
    await beat('codex-3', codex)
    expect(await statusOf('codex-3')).toBe('active')
  })

  it('a key holds newcomers as long as one agent that it covers is held', async () => {
    await contain({ all: true }, 3)
    await resume({ instances: ['batch-1', 'codex-b'] }, 2)
    await beat('batch-2', other)
    await beat('codex-2', codex)
    expect([await statusOf('batch-2'), await statusOf('codex-2')]).toEqual(['active', 'suspended'])
    await service.call('POST', '/api/resume/codex-1')
    await beat('codex-3', codex)
    // The newcomer is held as a member, so its key still is.
    expect(await statusOf('codex-3')).toBe('suspended')
    await resume({ instances: ['codex-2', 'codex-3'] }, 2)
    await beat('codex-4', codex)
    expect(await statusOf('codex-4')).toBe('active')
  })

  it('a kill of one agent holds no new instance', async () => {
    await service.call('POST', '/api/kill/codex-1', { body: { reason: 'x' } })
    await beat('codex-2', codex)
    expect(await statusOf('codex-2')).toBe('active')
  })
})

it('a limit refuses newcomers as ever, and holds those that it has room for', async () => {
  const limited = await service.call<{ id: string; key: string }>('POST', '/api/keys', {
    body: { scope: 'agent', name: 'limited', instances: ['small-*'], max_instances: 3 },
  })
  await beat('small-0', limited.body)
  await contain({ instances: ['small-0'] }, 1)
  const answers = await Promise.all([1, 2, 3, 4].map((index) => beat(`small-${index}`, limited.body)))
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 403, 403])
  const rows = await service.rows(`select suspended from instances where id like 'small-%'`)
  expect(rows).toEqual([{ suspended: 1 }, { suspended: 1 }, { suspended: 1 }])
  const audited = await service.rows(
    `select target from audit_log where action = 'instance.suspend' and target like 'small-%'`,
  )
  expect(audited).toHaveLength(3)
})

// One by one they kept a process busy for seconds, in which no other heartbeat was answered.
it('a burst of newcomers beyond a limit is registered in a few transactions', async () => {
  const limited = await service.call<{ id: string; key: string }>('POST', '/api/keys', {
    body: { scope: 'agent', name: 'limited', instances: ['small-*'], max_instances: 5 },
  })
  await beat('small-0', limited.body)
  await contain({ instances: ['small-0'] }, 1)
  const { batch } = service.deps.database
  let batches = 0
  service.deps.database.batch = (...given) => {
    batches += 1
    return batch(...given)
  }
  const answers = await Promise.all(Array.from({ length: 100 }, (_, index) => beat(`small-n${index}`, limited.body)))
  service.deps.database.batch = batch
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(4)
  expect(answers.filter(({ status }) => status === 403)).toHaveLength(96)
  expect(await service.rows(`select id from instances where id like 'small-%' and suspended = 0`)).toEqual([])
  expect(batches).toBeLessThan(40)
})

// The stop took one attempt after another while a key registered, and was refused in the end.
it('a stop is stored whatever registers while it is requested, and includes it', async () => {
  const { database } = service.deps
  const { batch } = database
  let round = 0
  database.batch = async (statements, options) => {
    // Just before the stop is stored, at each attempt.
    if (statements.some(({ sql }) => sql.includes('insert into "containments"'))) {
      round += 1
      await beat(`codex-late-${round}`, codex)
    }
    return batch(statements, options)
  }
  const id = await contain({ all: true }, 3)
  database.batch = batch
  expect(round).toBe(1)
  expect(await read(id)).toMatchObject({ requested: 4, changed: 4, joined: ['codex-late-1'] })
  expect(await statusOf('codex-late-1')).toBe('suspended')
})

// A key that registers all the time would otherwise find the moment between selection and stop.
it('no instance that registers during the request of a stop of all goes on, with several processes', async () => {
  const second = await openOther()
  const processes = [service, second]
  let stopped = 0
  for (let round = 0; round < 6; round++) {
    const ids = Array.from({ length: 12 }, (_, index) => `codex-r${round}-${index}`)
    const before = Number(
      (await service.rows<{ count: number }>('select count(*) as count from instances where suspended = 0'))[0]!.count,
    )
    const registering = ids.map(async (id, index) => {
      for (let turn = 0; turn < index; turn++) await Promise.resolve()
      return beat(id, codex, {}, processes[index % 2])
    })
    const stopping = service.call<Containment & { error?: string }>('POST', '/api/containments', {
      body: {
        action: 'suspend',
        selector: { all: true },
        reason: 'It spreads',
        confirm: `suspend ${before} ${before === 1 ? 'agent' : 'agents'}`,
      },
    })
    const [answer] = await Promise.all([stopping, ...registering])
    // Those that registered before the selection change the number that has to be confirmed.
    if (answer.status !== 201) {
      await resumeEverything()
      continue
    }
    await service.services.containmentWork.whenIdle()
    expect(await service.rows(`select id from instances where suspended = 0`), `round ${round}`).toEqual([])
    const { requested, changed, missing_count } = await read(answer.body.id)
    expect([changed, missing_count]).toEqual([requested, requested])
    stopped += 1
    await resumeEverything()
  }
  expect(stopped).toBeGreaterThan(0)
})

async function resumeEverything(): Promise<void> {
  const held = await service.rows('select id from instances where suspended = 1')
  if (held.length > 0) await resume({ all: true }, held.length)
}
