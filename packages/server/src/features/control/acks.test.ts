import type { InstanceDetail } from '@wardline/contract'
import { expect, it } from 'vitest'
import { openTestService, type TestService } from '../../testing/service.ts'

/** Counts the changes that acks make, on every engine, without the service. */
async function countWrites({ deps, execute, rows }: TestService): Promise<() => Promise<number>> {
  await execute('create table ack_writes (at bigint)')
  await execute(
    deps.database.isShared
      ? `create function count_ack() returns trigger language plpgsql as
          $$ begin insert into ack_writes values (1); return new; end $$;
        create trigger count_ack after update of claimed_version, applied_version on instances
          for each row execute function count_ack()`
      : `create trigger count_ack after update of claimed_version, applied_version on instances
          begin insert into ack_writes values (1); end`,
  )
  return async () => (await rows<{ count: number }>('select count(*) as count from ack_writes'))[0]!.count
}

const beat = (service: TestService, more: object = {}) =>
  service.call('POST', '/api/heartbeat', { body: { instance_id: 'bot', name: 'bot', ...more } })
const ackWith = (service: TestService, key?: string) => (version: number) =>
  service.call('POST', '/api/instances/bot/ack', { body: { version }, ...(key === undefined ? {} : { key }) })
const statuses = async (answers: Promise<{ status: number }>[]) =>
  [...new Set((await Promise.all(answers)).map(({ status }) => status))].toSorted()

it('writes a version once when it is acknowledged repeatedly', async () => {
  await using service = await openTestService()
  await beat(service)
  const writes = await countWrites(service)
  const ack = ackWith(service)
  expect(await statuses(Array.from({ length: 50 }, () => ack(999)))).toEqual([400])
  expect((await ack(999)).status).toBe(400)
  expect(await writes()).toBe(1)
  await service.call('POST', '/api/kill/bot', { body: { reason: 'stop' } })
  expect(await statuses(Array.from({ length: 50 }, () => ack(1_000)))).toEqual([200])
  expect((await ack(1_000)).status).toBe(200)
  expect(await writes()).toBe(2)
})

// Otherwise each ack would be a disk sync or a connection that the kill waits for.
it('shares commits, so that a kill does not wait behind a flood of acks', async () => {
  await using service = await openTestService()
  await beat(service)
  const writes = await countWrites(service)
  const ack = ackWith(service)
  const flood = Array.from({ length: 2_000 }, (_, index) => ack(1_000 + index))
  const kill = service.call('POST', '/api/kill/bot', { body: { reason: 'stop' } })
  expect((await kill).status).toBe(200)
  await Promise.all(flood)
  expect(await writes()).toBeLessThan(200)
})

it('refuses a key that claims more and more versions that were never issued', async () => {
  await using service = await openTestService({ env: { WARDLINE_QUOTA_CRITICAL_EVENTS: '1' } })
  const { key } = await service.createKey('agent', ['bot'])
  await beat(service)
  const writes = await countWrites(service)
  const ack = ackWith(service, key)
  const answers: number[] = []
  for (let version = 1; version <= 15; version++) answers.push((await ack(version)).status)
  // Unused quota accumulates for ten seconds.
  expect(answers).toEqual([...Array(10).fill(400), ...Array(5).fill(429)])
  expect(await writes()).toBe(10)
  // Neither a repeated claim nor a version that was issued costs quota.
  expect((await ack(10)).status).toBe(400)
  await service.call('POST', '/api/kill/bot', { body: { reason: 'stop' } })
  expect((await ack(11)).status).toBe(200)
})

// A version in a heartbeat is an acknowledgement too: an agent may have no other way to send one.
it.each([
  ['an ack', ['ack']],
  ['a heartbeat', ['heartbeat']],
  ['a heartbeat before the ack', ['heartbeat', 'ack']],
  ['an ack before the heartbeat', ['ack', 'heartbeat']],
])('proves the agent stoppable and is measured once, by %s', async (_name, ways) => {
  await using service = await openTestService()
  await beat(service)
  await service.call('POST', '/api/kill/bot', { body: { reason: 'stop' } })
  service.clock.advance(2_000)
  const confirmedAt = new Date(service.clock.now()).toISOString()
  for (const way of ways) {
    if (way === 'ack') await ackWith(service)(1)
    else await beat(service, { control_version: 1 })
    service.clock.advance(1_000)
  }
  const { body } = await service.call<InstanceDetail>('GET', '/api/instances/bot')
  expect(body).toMatchObject({
    control: { confirmed: true, applied_at: confirmedAt },
    last_proven_stoppable_at: confirmedAt,
  })
  const metrics = (await service.call('GET', '/metrics')).text
  expect(metrics).toContain('wardline_kill_confirm_seconds_sum 2\n')
  expect(metrics).toContain('wardline_kill_confirm_seconds_count 1\n')
})

// A resume, an old version or one that was never issued proves nothing about a suspension.
it('proves nothing by the version of a resume, an old one, or one that was never issued', async () => {
  await using service = await openTestService()
  await beat(service)
  await service.call('POST', '/api/kill/bot', { body: { reason: 'stop' } })
  await service.call('POST', '/api/resume/bot', { body: { reason: 'go' } })
  await beat(service, { control_version: 2 })
  await service.call('POST', '/api/kill/bot', { body: { reason: 'stop' } })
  await beat(service, { control_version: 2 })
  await beat(service, { control_version: 9 })
  const { body } = await service.call<InstanceDetail>('GET', '/api/instances/bot')
  expect(body).toMatchObject({ control: { confirmed: false }, last_proven_stoppable_at: null })
  expect((await service.call('GET', '/metrics')).text).toContain('wardline_kill_confirm_seconds_count 0\n')
})
