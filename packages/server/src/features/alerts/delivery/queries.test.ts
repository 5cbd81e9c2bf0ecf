import { expect, it } from 'vitest'
import { openTestService } from '../../../testing/service.ts'
import { noticeMessage } from '../channels/message.ts'
import { claimMessages, insertMessages } from './queries.ts'

// A message that two processes claim would be sent twice.
it('only one of two processes claims a message if both try concurrently', async () => {
  await using service = await openTestService()
  const { dataDir } = service.deps.config
  await using other = await openTestService({ dataDir, clock: service.clock })
  const now = service.clock.now()
  for (let round = 0; round < 100; round++) {
    const messages = Array.from({ length: 4 }, () => noticeMessage('test', now))
    await insertMessages(service.deps.database.db, 'channel', 'own', messages)
    const wanted = { channelId: 'channel', lane: 'own' as const, limit: 4, unattemptedOnly: false }
    const claim = { now, leaseMs: 60_000 }
    const taken = await Promise.all([
      claimMessages(service.deps.database.db, wanted, { ...claim, holder: 'one' }),
      claimMessages(other.deps.database.db, wanted, { ...claim, holder: 'other' }),
    ])
    const ids = taken.flat().map(({ id }) => id)
    expect(ids.toSorted()).toEqual(messages.map(({ id }) => id).toSorted())
  }
})
