import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectCount, expectRefusal, fields, isoTime } from './expectations.ts'
import { unique } from './fleet.ts'
import { type Service, startService } from './service.ts'
import type { InstanceView, StatusView } from './shapes.ts'

describe('POST /api/heartbeat', () => {
  let service: Service
  beforeAll(async () => {
    service = await startService()
  })
  afterAll(() => service?.stop())

  const send = (body: unknown) => service.call('POST', '/api/heartbeat', { body })
  const view = async (id: string): Promise<InstanceView | undefined> => {
    const status = await service.call<StatusView>('GET', '/api/status')
    return status.body.instances.find((instance) => instance.id === id)
  }

  test('answers exactly { ok: true }', async () => {
    const answer = await send({ instance_id: unique('first'), name: 'First' })
    expect(answer.status).toBe(200)
    expect(answer.body).toEqual({ ok: true })
  })

  test('creates the record of an unknown instance as active, seen just now', async () => {
    const id = unique('created')
    const before = Date.now()
    await send({ instance_id: id, name: 'Created' })
    const instance = await view(id)
    expect(instance).toMatchObject({ id, name: 'Created', status: 'active', suspension_reason: null })
    expect(instance?.last_heartbeat).toMatch(isoTime)
    const heard = Date.parse(instance?.last_heartbeat ?? '')
    expect(heard).toBeGreaterThanOrEqual(before - 1_000)
    expect(heard).toBeLessThanOrEqual(Date.now() + 1_000)
    expectCount(instance?.secondsAgo)
    expect(instance?.secondsAgo).toBeLessThan(10)
  })

  test('shows an instance with the six fields of the contract', async () => {
    const id = unique('fields')
    await send({ instance_id: id, name: 'Fields', agent_type: 'researcher', version: '1.2.3' })
    const expected = ['id', 'last_heartbeat', 'name', 'secondsAgo', 'status', 'suspension_reason']
    expect(fields(await view(id))).toEqual(expected)
  })

  test('refreshes the name and the time of a known instance and keeps one record', async () => {
    const id = unique('refreshed')
    await send({ instance_id: id, name: 'Old name' })
    const first = await view(id)
    await send({ instance_id: id, name: 'New name' })
    const status = await service.call<StatusView>('GET', '/api/status')
    const records = status.body.instances.filter((instance) => instance.id === id)
    expect(records).toHaveLength(1)
    expect(records[0]?.name).toBe('New name')
    expect(Date.parse(records[0]!.last_heartbeat)).toBeGreaterThanOrEqual(Date.parse(first!.last_heartbeat))
  })

  test('accepts agent_type, version, control_version, fail_mode, boot_id and unknown fields', async () => {
    const extras = {
      agent_type: 'x',
      version: '1',
      control_version: 0,
      fail_mode: 'closed',
      boot_id: 'b',
      shoe_size: 46,
    }
    const answer = await send({ instance_id: unique('extras'), name: 'Extras', ...extras })
    expect(answer.status, answer.text).toBe(200)
    expect(answer.body).toEqual({ ok: true })
  })

  test('counts the name in characters, not in bytes or UTF-16 units', async () => {
    const id = unique('foxes')
    const accepted = await send({ instance_id: id, name: '🦊'.repeat(80) })
    expect(accepted.status, accepted.text).toBe(200)
    expect((await view(id))?.name).toBe('🦊'.repeat(80))
    expectRefusal(await send({ instance_id: id, name: '🦊'.repeat(81) }), 400, 'name')
    expectRefusal(await send({ instance_id: id, name: 'x'.repeat(81) }), 400, 'name')
  })

  test.each([
    ['upper case', 'Agent-1'],
    ['a space', 'agent 1'],
    ['a dot', 'agent.1'],
    ['a slash', 'agent/1'],
    ['a letter beyond ASCII', 'agént'],
    ['a trailing line break', 'agent-1\n'],
    ['nothing at all', ''],
  ])('refuses an instance_id with %s', async (_title, instanceId) => {
    expectRefusal(await send({ instance_id: instanceId, name: 'Name' }), 400, 'instance_id')
  })

  test('creates no record when it refuses', async () => {
    const id = unique('refused')
    expectRefusal(await send({ instance_id: id, name: 'x'.repeat(81) }), 400, 'name')
    expect(await view(id)).toBeUndefined()
  })

  test('keeps a suspended instance suspended while refreshing the time it was last seen', async () => {
    const id = unique('suspended')
    await send({ instance_id: id, name: 'Suspended' })
    await service.call('POST', `/api/kill/${id}`, { body: { reason: 'under review' } })
    const before = await view(id)
    const answer = await send({ instance_id: id, name: 'Suspended', status: 'active' })
    expect(answer.body).toEqual({ ok: true })
    const after = await view(id)
    expect(after).toMatchObject({ status: 'suspended', suspension_reason: 'under review' })
    expect(Date.parse(after!.last_heartbeat)).toBeGreaterThanOrEqual(Date.parse(before!.last_heartbeat))
  })

  test('creates one record when many heartbeats of a new instance arrive concurrently', async () => {
    const id = unique('herd')
    const answers = await Promise.all(Array.from({ length: 20 }, () => send({ instance_id: id, name: 'Herd' })))
    expect(new Set(answers.map((answer) => answer.status))).toEqual(new Set([200]))
    const status = await service.call<StatusView>('GET', '/api/status')
    expect(status.body.instances.filter((instance) => instance.id === id)).toHaveLength(1)
  })
})
