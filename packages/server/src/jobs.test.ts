import { expect, it } from 'vitest'
import { readCounter } from './db/counters.ts'
import { eventToStore } from './features/events/new-event.ts'
import { listJobs, startJobs } from './jobs.ts'
import { openTestService } from './testing/service.ts'

it('stops long work between two batches on shutdown and continues it in the next process', async () => {
  await using service = await openTestService()
  const { deps, services, clock } = service
  const report = { severity: 'info' as const, source: 'test', event_type: 'note', description: 'one of many' }
  const events = Array.from({ length: 5_000 }, () => eventToStore(report, null, clock.now()))
  await services.ingest.store(events)
  const indexing = listJobs(deps, services).filter(({ name }) => name === 'event-index')

  await startJobs(indexing, deps, services)()
  expect(await readCounter(deps.database.db, 'indexed_seq')).toBeLessThanOrEqual(1_000)

  await indexing[0]!.run()
  expect(await readCounter(deps.database.db, 'indexed_seq')).toBe(5_000)
})
