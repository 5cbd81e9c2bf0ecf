import { expect, it } from 'vitest'
import { openTestService } from '../../test-service.ts'
import { republishControl } from './kill-switch.ts'

// A disk that hangs while a kill is committed: the caller hears of a failure, but the kill is in the database.
it('sends polls and streams a change whose message was never sent', async () => {
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
  // Where other processes write the database as well, polls read it each time.
  const { receivesAll } = service.deps.bus
  expect(await poll()).toEqual(receivesAll ? { suspended: false, reason: null } : { suspended: true, reason: 'stop' })
  expect(heard).toEqual([])
  await republishControl(service.deps, service.services.suspensionFacts)
  expect(await poll()).toEqual({ suspended: true, reason: 'stop' })
  expect(heard).toEqual([1])
})
