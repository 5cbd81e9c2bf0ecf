import type { InstanceDetail, KeyView } from '@wardline/contract'
import { describe, expect, it } from 'vitest'
import { openTestService, type TestService } from '../../testing/service.ts'

const state = { processes: 3, isolated: true }

async function openSupervised() {
  const service = await openTestService()
  const created = await service.call<{ key: string; id: string }>('POST', '/api/keys', {
    body: { scope: 'agent', instances: ['bot'], supervises: true },
  })
  const ordinary = await service.createKey('agent', ['bot'])
  const beat = (more: object, key = created.body.key) =>
    service.call('POST', '/api/heartbeat', { key, body: { instance_id: 'bot', name: 'bot', ...more } })
  return {
    service,
    key: created.body,
    ordinary,
    /** As its supervisor sends it: no boot id, a different type. */
    bySupervisor: (more: object = {}, key?: string) =>
      beat({ name: 'bot on host', agent_type: 'supervisor', supervisor: state, ...more }, key),
    byAgent: (more: object = {}) => beat({ agent_type: 'coder', boot_id: 'a', ...more }, ordinary.key),
    view: async () => (await service.call<InstanceDetail>('GET', '/api/instances/bot')).body,
  }
}

const eventTypes = async (service: TestService) => {
  await service.services.ingest.whenIdle()
  return (await service.rows<{ event_type: string }>('select event_type from events order by seq')).map(
    (row) => row.event_type,
  )
}

describe('a key of a supervisor', () => {
  it('is only of scope agent, is listed as such, and hands it to its successor', async () => {
    const { service, key } = await openSupervised()
    await using _ = service
    const refused = await service.call<{ error: string }>('POST', '/api/keys', {
      body: { scope: 'operator', name: 'x', supervises: true },
    })
    expect(refused.status).toBe(400)
    expect(refused.body.error).toBe('supervises must be absent for scope operator.')
    const successor = await service.call<{ id: string; key: string }>('POST', `/api/keys/${key.id}/rotate`, {
      body: {},
    })
    const { keys } = (await service.call<{ keys: KeyView[] }>('GET', '/api/keys')).body
    expect(new Set(keys.filter(({ supervises }) => supervises).map(({ id }) => id))).toEqual(
      new Set([key.id, successor.body.id]),
    )
    const answer = await service.call('POST', '/api/heartbeat', {
      key: successor.body.key,
      body: { instance_id: 'bot', name: 'bot', supervisor: state },
    })
    expect(answer.headers['wardline-supervisor']).toBe('proves')
  })

  it('is what makes the word of a supervisor count, and the answer says so', async () => {
    const { service, ordinary, bySupervisor, byAgent } = await openSupervised()
    await using _ = service
    expect((await byAgent()).headers['wardline-supervisor']).toBeUndefined()
    expect((await bySupervisor({}, ordinary.key)).headers['wardline-supervisor']).toBe('ignored')
    expect(await service.rows('select supervised_at from instances')).toEqual([{ supervised_at: null }])
    expect((await bySupervisor()).headers['wardline-supervisor']).toBe('proves')
    expect(await service.rows('select supervised_at from instances')).toEqual([{ supervised_at: service.clock.now() }])
  })

  it.each([
    [{ processes: -1, isolated: true }, 'supervisor.processes'],
    [{ processes: 100_001, isolated: true }, 'supervisor.processes'],
    [{ processes: 1 }, 'supervisor.isolated'],
    ['yes', 'supervisor'],
  ])('refuses %j', async (supervisor, field) => {
    const { service, bySupervisor } = await openSupervised()
    await using _ = service
    const answer = await bySupervisor({ supervisor })
    expect(answer.status).toBe(400)
    expect((answer.body as { error: string }).error).toContain(field)
  })
})

describe('an agent and its supervisor under one id', () => {
  it.each(['a key of a supervisor', 'an ordinary key'])('are no clone and no restart, with %s', async (kind) => {
    const { service, ordinary, bySupervisor, byAgent, view } = await openSupervised()
    await using _ = service
    const key = kind === 'an ordinary key' ? ordinary.key : undefined
    for (let minute = 0; minute < 12; minute++) {
      await byAgent()
      service.clock.advance(30_000)
      await bySupervisor({}, key)
      service.clock.advance(30_000)
    }
    expect(await eventTypes(service)).toEqual([])
    expect(await view()).toMatchObject({ name: 'bot', agent_type: 'coder' })
  })

  it('are no clone when the client in the agent sends no boot id', async () => {
    const { service, bySupervisor, byAgent, view } = await openSupervised()
    await using _ = service
    await bySupervisor()
    expect(await view()).toMatchObject({ name: 'bot on host', agent_type: 'supervisor' })
    for (let minute = 0; minute < 12; minute++) {
      await byAgent({ boot_id: '' })
      service.clock.advance(30_000)
      await bySupervisor()
      service.clock.advance(30_000)
    }
    expect(await eventTypes(service)).toEqual([])
    expect(await view()).toMatchObject({ name: 'bot', agent_type: 'coder' })
  })

  it('do not hide a second agent', async () => {
    const { service, bySupervisor, byAgent } = await openSupervised()
    await using _ = service
    for (const boot_id of ['a', 'b', 'a']) {
      await byAgent({ boot_id })
      await bySupervisor()
    }
    expect(await eventTypes(service)).toContain('instance_clone')
  })

  it('are both heard when their heartbeats are stored together', async () => {
    const { service, bySupervisor, byAgent, view } = await openSupervised()
    await using _ = service
    await byAgent()
    await service.call('POST', '/api/kill/bot', { body: { reason: 'stop' } })
    for (const order of [0, 1]) {
      service.clock.advance(10_000)
      const sends = [() => byAgent({ control_version: 1, version: '2' }), () => bySupervisor({ control_version: 0 })]
      await Promise.all((order === 0 ? sends : sends.toReversed()).map((send) => send()))
      expect(await service.rows('select supervised_at from instances')).toEqual([
        { supervised_at: service.clock.now() },
      ])
      expect(await view()).toMatchObject({ version: '2', name: 'bot', control: { applied_version: 1 } })
    }
  })

  // Who says goodbye × whose heartbeat came before: whether the agent counts as gone.
  it.each([
    ['agent', 'nobody', true],
    ['agent', 'supervisor', false],
    ['agent', 'supervisor 91 seconds ago', true],
    ['supervisor', 'nobody', true],
    ['supervisor', 'agent', true],
  ])('the goodbye of the %s after a heartbeat of the %s: gone is %s', async (who, before, isGone) => {
    const { service, bySupervisor, byAgent, view } = await openSupervised()
    await using _ = service
    if (before.startsWith('supervisor')) await bySupervisor()
    if (before === 'agent') await byAgent()
    if (before.endsWith('ago')) service.clock.advance(91_000)
    await (who === 'agent' ? byAgent({ leaving: true }) : bySupervisor({ leaving: true }))
    expect((await view()).left_at !== null).toBe(isGone)
    service.clock.advance(60_000)
    await (who === 'agent' ? bySupervisor() : byAgent())
    expect((await view()).left_at).toBeNull()
  })

  // Otherwise a kill could get a version that one of the two ignores.
  it.each(['agent', 'supervisor'])('keep a version that the %s claims until the next kill', async (who) => {
    const { service, bySupervisor, byAgent, view } = await openSupervised()
    await using _ = service
    await byAgent({ control_version: 0 })
    await bySupervisor({ control_version: 0 })
    await (who === 'agent' ? byAgent({ control_version: 9 }) : bySupervisor({ control_version: 9 }))
    await byAgent({ control_version: who === 'agent' ? 9 : 0 })
    await bySupervisor({ control_version: who === 'agent' ? 0 : 9 })
    if (who === 'supervisor') await byAgent({ control_version: 0 })
    expect((await view()).control).toMatchObject({ claimed_version: 9, mismatch: true })
    await service.call('POST', '/api/kill/bot', { body: { reason: 'stop' } })
    expect((await view()).control).toMatchObject({ version: 10, mismatch: false })
  })
})
