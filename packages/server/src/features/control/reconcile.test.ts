import { expect, it } from 'vitest'
import { openTestService } from '../../testing/service.ts'
import { readChangedControl } from '../instances/control-statements.ts'
import { republishControl } from './kill-switch.ts'

// The disk hangs while a kill is committed: the caller gets an error, but the kill is in the database.
it('delivers a change whose message was never sent to polls and streams', async () => {
  await using service = await openTestService()
  const heard: number[] = []
  service.deps.bus.onControl(({ version }) => heard.push(version))
  await service.call('POST', '/api/heartbeat', { body: { instance_id: 'bot', name: 'Bot' } })
  const poll = async () => (await service.call('GET', '/api/instances/bot/status')).body
  expect(await poll()).toEqual({ suspended: false, reason: null })
  await service.deps.database.db
    .updateTable('instances')
    .set({ suspended: 1, suspension_reason: 'stop', control_version: 1, control_changed_at: service.clock.now() })
    .where('id', '=', 'bot')
    .execute()
  // If several processes share the database, polls read it each time.
  const { receivesAll } = service.deps.bus
  expect(await poll()).toEqual(receivesAll ? { suspended: false, reason: null } : { suspended: true, reason: 'stop' })
  expect(heard).toEqual([])
  await republishControl(service.deps, service.services.suspensionFacts)
  expect(await poll()).toEqual({ suspended: true, reason: 'stop' })
  expect(heard).toEqual([1])
})

it('reads the changes of a fleet stop in pages and sends each of them once', async () => {
  await using service = await openTestService()
  const ids = Array.from({ length: 2_000 }, (_, n) => `m-${String(n).padStart(4, '0')}`)
  const registers = { owner: 'k', max: null, tags: null }
  await Promise.all(
    ids.map((id) =>
      service.services.heartbeats.beat({ instance_id: id, name: id }, { registers, instances: null, keyId: 'k' }),
    ),
  )
  const body = { action: 'suspend', selector: { all: true }, reason: 'leak', confirm: 'suspend 2000 agents' }
  expect((await service.call('POST', '/api/containments', { body })).status).toBe(201)
  await service.services.containmentWork.whenIdle()
  const since = service.clock.now()
  // A fleet stop writes thousands of changes with the same time, so a page ends between two of them.
  expect(await service.rows('select distinct control_changed_at from instances')).toHaveLength(1)
  const page = await readChangedControl(service.deps.database.db, { changedAt: since, id: ids[1_499]! }, 300)
  expect(page.map(({ id }) => id)).toEqual(ids.slice(1_500, 1_800))
  const heard: string[] = []
  service.deps.bus.onControl(({ instance_id }) => heard.push(instance_id))
  await republishControl(service.deps, service.services.suspensionFacts)
  expect(heard).toEqual(ids)
  service.clock.advance(60_001)
  await service.services.controlRelay.run()
  await service.services.controlRelay.run()
  heard.length = 0
  await service.services.controlRelay.run()
  expect(heard).toEqual([])
})
