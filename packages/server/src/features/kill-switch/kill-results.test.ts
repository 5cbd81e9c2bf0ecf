import { expect, it } from 'vitest'
import { openTestService } from '../../test-service.ts'
import { markKillResult } from '../instances/control-statements.ts'
import { reportKillResults } from './kill-results.ts'

// Otherwise an agent that confirmed an earlier kill would count as stopped by the present one.
it('reports nothing of a kill that another one has followed since it was read', async () => {
  await using service = await openTestService()
  const beat = { instance_id: 'bot', name: 'Bot' }
  await service.call('POST', '/api/heartbeat', { body: beat })
  const kill = () => service.call('POST', '/api/kill/bot', { body: { reason: 'Test' } })
  await kill()
  await service.call('POST', '/api/resume/bot')
  await kill()
  const mark = (version: number) =>
    service.deps.database.db.transaction().execute((trx) => markKillResult(trx, 'bot', version, 'confirmed'))
  expect(await mark(1)).toBe(false)
  expect(await mark(3)).toBe(true)
  expect(await mark(3)).toBe(false)
})

it('is reported by one of two processes', async () => {
  await using receiverless = await openTestService({ env: { SLACK_WEBHOOK_URL: 'http://127.0.0.1:9/none' } })
  const { dataDir } = receiverless.deps.config
  await using other = await openTestService({
    dataDir,
    clock: receiverless.clock,
    env: { SLACK_WEBHOOK_URL: 'http://127.0.0.1:9/none' },
  })
  await receiverless.call('POST', '/api/heartbeat', { body: { instance_id: 'bot', name: 'Bot' } })
  await receiverless.call('POST', '/api/kill/bot', { body: { reason: 'Test' } })
  await receiverless.call('POST', '/api/instances/bot/ack', { body: { version: 1 } })
  await Promise.all([receiverless, other].map(({ deps, services }) => reportKillResults(deps, services.outbox)))
  const rows = await receiverless.rows('select event_type from alerts order by seq')
  expect(rows.map(({ event_type }) => event_type)).toEqual(['instance_suspended', 'kill_confirmed'])
})

// A machine whose clock is set forward would call people for each kill of the last minute.
it('calls no kill overdue because the clock was set, until a minute has passed', async () => {
  await using service = await openTestService({ env: { SLACK_WEBHOOK_URL: 'http://127.0.0.1:9/none' } })
  const { deps, services, clock } = service
  const types = async () => {
    await reportKillResults(deps, services.outbox)
    const rows = await service.rows<{ event_type: string }>('select event_type from alerts order by seq')
    return rows.map(({ event_type }) => event_type)
  }
  await service.call('POST', '/api/heartbeat', { body: { instance_id: 'bot', name: 'Bot' } })
  await types()
  await service.call('POST', '/api/kill/bot', { body: { reason: 'Test' } })
  clock.jump(3_600_000)
  expect(await types()).toEqual(['instance_suspended'])
  clock.advance(59_000)
  expect(await types()).toEqual(['instance_suspended'])
  clock.advance(1_000)
  expect(await types()).toEqual(['instance_suspended', 'kill_unconfirmed'])
})
