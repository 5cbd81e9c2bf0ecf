import { expect, it } from 'vitest'
import { uuidV7 } from '../../ids.ts'
import { manualClock } from '../../testing/clock.ts'
import { listenOnFreePort, openControlStream } from '../../testing/control-stream.ts'
import { openTestService, type TestService } from '../../testing/service.ts'

const beat = (service: TestService, id: string) =>
  service.call('POST', '/api/heartbeat', { body: { instance_id: id, name: id } })

/** Writes until the open streams are as expected: a socket that closed is noticed a moment later. */
async function expectListening(service: TestService, ids: string[], expected: object[]): Promise<void> {
  const { openStreams } = service.services
  await expect
    .poll(async () => {
      await openStreams.write()
      return (await openStreams.find(ids)).toSorted((a, b) => (a.instanceId < b.instanceId ? -1 : 1))
    })
    .toEqual(expected)
}

/** Counts the transactions that change which streams are open. */
async function countTransactions(service: TestService) {
  await service.execute('create table stream_writes (at bigint)')
  await service.execute(
    service.deps.database.isShared
      ? `create function count_writes() returns trigger language plpgsql as
          $$ begin insert into stream_writes values (1); return null; end $$;
        create trigger count_writes after insert or update on stream_processes
          for each row execute function count_writes()`
      : `create trigger count_inserts after insert on stream_processes begin insert into stream_writes values (1); end;
        create trigger count_updates after update on stream_processes begin insert into stream_writes values (1); end`,
  )
  return async () => (await service.rows<{ count: number }>('select count(*) as count from stream_writes'))[0]!.count
}

it('finds the instances with open streams and what each client understands', async () => {
  await using service = await openTestService()
  const url = await listenOnFreePort(service.app)
  for (const id of ['drilled', 'plain', 'silent']) await beat(service, id)
  const ids = ['drilled', 'plain', 'silent']
  await using drilled = await openControlStream(url, 'drilled', '?understands=drill,later')
  await using plain = await openControlStream(url, 'plain')
  await expectListening(service, ids, [
    { instanceId: 'drilled', understands: ['drill'] },
    { instanceId: 'plain', understands: [] },
  ])
  // It is enough that one of the agent's streams understands the kind.
  const second = await openControlStream(url, 'plain', '?understands=drill')
  await expectListening(service, ['plain'], [{ instanceId: 'plain', understands: ['drill'] }])
  await second[Symbol.asyncDispose]()
  await expectListening(service, ['plain'], [{ instanceId: 'plain', understands: [] }])
  await drilled[Symbol.asyncDispose]()
  await plain[Symbol.asyncDispose]()
  await expectListening(service, ids, [])
})

it('refuses a value that is not a list of kinds', async () => {
  await using service = await openTestService()
  await beat(service, 'agent-1')
  for (const given of ['', 'Drill', 'drill,', `${'a'.repeat(201)}`]) {
    const { status, text } = await service.call('GET', `/api/instances/agent-1/control?understands=${given}`)
    expect(status, given).toBe(400)
    expect(text).toContain('understands')
  }
})

it('sends an unchanged stream to a client that requests no other kinds', async () => {
  await using service = await openTestService()
  const url = await listenOnFreePort(service.app)
  await beat(service, 'agent-1')
  await using plain = await openControlStream(url, 'agent-1')
  await using asking = await openControlStream(url, 'agent-1', '?understands=drill')
  await service.call('POST', '/api/kill/agent-1', { body: { reason: 'stop' } })
  await expect.poll(() => plain.messages().length).toBe(2)
  await expect.poll(() => asking.messages().length).toBe(2)
  const [first, second] = plain.messages().map((message) => JSON.stringify(message))
  expect(plain.text()).toBe(`data: ${first}\nretry: 2000\n\ndata: ${second}\nid: 1\n\n`)
  expect(asking.text()).toBe(plain.text())
})

it('sends notices to the streams that asked for their kind: of an approval to one agent, of policies to all', async () => {
  await using service = await openTestService()
  const url = await listenOnFreePort(service.app)
  for (const id of ['agent-1', 'agent-2']) await beat(service, id)
  await using plain = await openControlStream(url, 'agent-1')
  await using drilled = await openControlStream(url, 'agent-1', '?understands=drill')
  await using asking = await openControlStream(url, 'agent-1', '?understands=drill,policy,approval')
  await using other = await openControlStream(url, 'agent-2', '?understands=policy,approval')
  await using watched = await openControlStream(
    url,
    'agent-1',
    '?understands=policy,approval',
    (await service.createKey('viewer')).key,
  )
  const { bus } = service.deps
  const approval = { action: 'approval', instance_id: 'agent-1', id: uuidV7(0), state: 'denied' } as const
  bus.publishNotice(approval)
  bus.publishNotice({ action: 'policy', version: 7 })
  const policyOf = (instance_id: string) => ({ action: 'policy', instance_id, version: 7 })
  await expect.poll(() => asking.messages().slice(1)).toEqual([approval, policyOf('agent-1')])
  await expect.poll(() => other.messages().slice(1)).toEqual([policyOf('agent-2')])
  await service.call('POST', '/api/kill/agent-1', { body: { reason: 'stop' } })
  for (const stream of [plain, drilled, watched]) {
    await expect.poll(() => stream.messages().map(({ action }) => action)).toEqual(['resume', 'suspend'])
  }
})

it('writes many agents that connect together in one transaction, and does not write reconnections', async () => {
  const agents = 200
  await using service = await openTestService()
  const url = await listenOnFreePort(service.app)
  const ids = Array.from({ length: agents }, (_, n) => `agent-${n}`)
  for (const id of ids) await beat(service, id)
  const transactions = await countTransactions(service)
  const { openStreams } = service.services
  const connect = () => Promise.all(ids.map((id) => openControlStream(url, id, '?understands=drill')))
  const first = await connect()
  await openStreams.write()
  expect(await openStreams.find(ids)).toHaveLength(agents)
  expect(await transactions()).toBe(1)
  const second = await connect()
  for (const stream of first) await stream[Symbol.asyncDispose]()
  await openStreams.write()
  expect(await transactions()).toBe(1)
  for (const stream of second) await stream[Symbol.asyncDispose]()
  await expectListening(service, ids, [])
})

it('ignores the streams of a process without a sign of life until it sends one', async () => {
  const clock = manualClock()
  await using service = await openTestService({ clock })
  const url = await listenOnFreePort(service.app)
  await beat(service, 'agent-1')
  await using _stream = await openControlStream(url, 'agent-1')
  const { openStreams } = service.services
  const listening = async () => (await openStreams.find(['agent-1'])).length
  await openStreams.write()
  clock.advance(10_000)
  expect(await listening()).toBe(1)
  clock.advance(10_000)
  expect(await listening()).toBe(0)
  await openStreams.write()
  expect(await listening()).toBe(1)
})

it('retries failed writes with the next call', async () => {
  await using service = await openTestService()
  const url = await listenOnFreePort(service.app)
  await beat(service, 'agent-1')
  await using _stream = await openControlStream(url, 'agent-1')
  const { openStreams } = service.services
  const allow = await service.refuse('insert', 'control_streams')
  await expect(openStreams.write()).rejects.toThrow()
  await allow()
  await openStreams.write()
  expect(await openStreams.find(['agent-1'])).toHaveLength(1)
})

it('removes the streams of a process on shutdown', async () => {
  await using service = await openTestService()
  const url = await listenOnFreePort(service.app)
  await beat(service, 'agent-1')
  await using _stream = await openControlStream(url, 'agent-1')
  const { openStreams } = service.services
  await openStreams.write()
  await openStreams.end()
  expect(await service.rows('select * from control_streams')).toEqual([])
  expect(await service.rows('select * from stream_processes')).toEqual([])
})

it('combines the streams of all processes, and restores those of a process that others had removed', async () => {
  const clock = manualClock()
  await using one = await openTestService({ clock })
  if (!one.deps.database.isShared) return
  await using other = await openTestService({ clock, dataDir: one.deps.config.dataDir })
  const urls = [await listenOnFreePort(one.app), await listenOnFreePort(other.app)] as const
  for (const id of ['agent-1', 'agent-2']) await beat(one, id)
  await using _first = await openControlStream(urls[0], 'agent-1', '?understands=drill')
  await using _second = await openControlStream(urls[1], 'agent-2')
  await one.services.openStreams.write()
  await other.services.openStreams.write()
  const both = [
    { instanceId: 'agent-1', understands: ['drill'] },
    { instanceId: 'agent-2', understands: [] },
  ]
  await expectListening(one, ['agent-1', 'agent-2'], both)
  // The second process pauses for two minutes.
  clock.advance(60_000)
  await one.services.openStreams.write()
  clock.advance(60_000)
  await one.services.openStreams.write()
  expect(await one.rows('select instance_id from control_streams')).toEqual([{ instance_id: 'agent-1' }])
  await other.services.openStreams.write()
  await expectListening(one, ['agent-1', 'agent-2'], both)
})
