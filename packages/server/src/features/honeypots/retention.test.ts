import { expect, it } from 'vitest'
import { openTestService } from '../../testing/service.ts'
import { indexEvents } from '../events/event-index.ts'
import { forgetOldEvents } from '../events/retention.ts'
import { forgetOldHits } from './retention.ts'

const dayMs = 86_400_000

// An agent that touches a decoy all day must not fill the database for ever.
it('deletes hits older than the retention period once their events are deleted', async () => {
  await using service = await openTestService({ env: { WARDLINE_RETENTION_DAYS: '30' } })
  const { body } = await service.call<{ id: string }>('POST', '/api/honeypots', {
    body: { instanceId: 'bot', type: 'file_path', path: '/srv/old/id_rsa' },
  })
  const touch = () => service.call('POST', '/api/honeypots/check/path', { body: { path: '/srv/old/id_rsa' } })
  const hits = async () =>
    (await service.call<{ hit_count: number }>('GET', `/api/honeypots/${body.id}`)).body.hit_count
  await touch()
  service.clock.advance(20 * dayMs)
  await touch()
  service.clock.advance(12 * dayMs)
  await forgetOldHits(service.deps)
  expect(await hits()).toBe(2)
  await indexEvents(service.deps.database)
  await forgetOldEvents(service.deps)
  await forgetOldHits(service.deps)
  expect(await hits()).toBe(1)
  // Events removed to free space do not remove their hits.
  await service.execute('delete from events')
  await forgetOldHits(service.deps)
  expect(await hits()).toBe(1)
})
