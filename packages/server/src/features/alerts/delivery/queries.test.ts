import { expect, it } from 'vitest'
import { openTestService } from '../../../test-service.ts'
import { noticeMessage } from '../channels/message.ts'
import { claimMessages, insertMessages } from './queries.ts'

// A message that two processes take is sent twice.
it('gives a message to one of two processes that ask at the same moment', async () => {
  await using service = await openTestService()
  const { dataDir } = service.deps.config
  await using other = await openTestService({ dataDir, clock: service.clock })
  const now = service.clock.now()
  for (let round = 0; round < 100; round++) {
    const messages = Array.from({ length: 4 }, () => noticeMessage('test', now))
    await insertMessages(service.deps.database.db, 'channel', 'own', messages)
    const claim = { channelId: 'channel', lane: 'own' as const, now, leaseMs: 60_000, limit: 4, unattemptedOnly: false }
    const taken = await Promise.all([
      claimMessages(service.deps.database.db, { ...claim, owner: 'one' }),
      claimMessages(other.deps.database.db, { ...claim, owner: 'other' }),
    ])
    const ids = taken.flat().map(({ id }) => id)
    expect(ids.toSorted()).toEqual(messages.map(({ id }) => id).toSorted())
  }
})
