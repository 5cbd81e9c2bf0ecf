import { connect, createServer, type Socket } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { StreamBacklog } from '../../http/stream-backlog.ts'
import { openTestService } from '../../testing/service.ts'
import { eventToStore } from '../events/new-event.ts'
import { RecentEvents } from '../events/recent-events.ts'
import { CatchUp, type Follower } from './catch-up.ts'

/** Opens connections whose clients read everything. */
async function openSockets(count: number): Promise<{ sockets: Socket[] } & AsyncDisposable> {
  const sockets: Socket[] = []
  const server = createServer((socket) => sockets.push(socket.on('error', () => {})))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  const clients = Array.from({ length: count }, () =>
    connect(port, '127.0.0.1')
      .resume()
      .on('error', () => {}),
  )
  while (sockets.length < count) await turn()
  return {
    sockets,
    async [Symbol.asyncDispose]() {
      for (const socket of [...clients, ...sockets]) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

const sourceOf = (head: number, recent = new RecentEvents()) => ({
  head,
  after: (seq: number, limit: number) => recent.after(seq, limit),
})

const followersOf = (sockets: Socket[], callers: number): Follower[] =>
  sockets.map((socket, index) => ({ socket, caller: `address ${index % callers}`, seq: 0, live: false }))

// Regression: sixty simultaneous replays once delayed a kill by half a second.
it('serves one page in total per turn of the event loop, however many followers there are', async () => {
  await using service = await openTestService()
  await using opened = await openSockets(60)
  const recent = new RecentEvents()
  const row = eventToStore({ severity: 'info', source: 's', event_type: 'n', description: 'x'.repeat(900) }, null, 0)
  for (let seq = 1; seq <= 400; seq++) recent.add({ ...row, seq })
  const catchUp = new CatchUp(service.deps, sourceOf(400, recent), new StreamBacklog(service.deps.metrics))
  const followers = followersOf(opened.sockets, 3)
  const written = () => opened.sockets.reduce((sum, socket) => sum + socket.bytesWritten, 0)
  for (const follower of followers) catchUp.add(follower)
  const served: number[] = []
  while (followers.some(({ live }) => !live)) {
    const before = written()
    await turn()
    served.push(written() - before)
  }
  catchUp.close()
  expect(followers.every(({ seq }) => seq === 400)).toBe(true)
  expect(Math.max(...served)).toBeLessThanOrEqual(64 * 1024)
  expect(served.length).toBeGreaterThanOrEqual(60 * 8)
})

it('reads at most two pages at a time from the database, and brings all clients to the head', async () => {
  await using service = await openTestService()
  const { deps } = service
  const report = { severity: 'info', source: 's', event_type: 'n', description: 'd' } as const
  await service.services.ingest.store(Array.from({ length: 450 }, () => eventToStore(report, null, 0)))
  await using opened = await openSockets(24)
  let [running, peak, reads] = [0, 0, 0]
  const database: typeof deps.database = Object.create(deps.database, {
    scan: {
      value: async (...given: Parameters<typeof deps.database.scan>) => {
        running += 1
        reads += 1
        peak = Math.max(peak, running)
        return await deps.database.scan(...given).finally(() => {
          running -= 1
        })
      },
    },
  })
  const source = sourceOf(450)
  const catchUp = new CatchUp({ ...deps, database }, source, new StreamBacklog(deps.metrics))
  const followers = followersOf(opened.sockets, 4)
  for (const follower of followers) catchUp.add(follower)
  await expect.poll(() => followers.every(({ live }) => live)).toBe(true)
  catchUp.close()
  expect(followers.every(({ seq }) => seq === 450)).toBe(true)
  expect(peak).toBe(2)
  expect(reads).toBe(24 * 5)
})

it('delays a caller that replays repeatedly, and no other', async () => {
  await using service = await openTestService()
  await using opened = await openSockets(13)
  const recent = new RecentEvents()
  const row = eventToStore({ severity: 'info', source: 's', event_type: 'n', description: 'd' }, null, 0)
  for (let seq = 1; seq <= 4_000; seq++) recent.add({ ...row, seq })
  const catchUp = new CatchUp(service.deps, sourceOf(4_000, recent), new StreamBacklog(service.deps.metrics))
  const followers = followersOf(opened.sockets, 1)
  const honest = { ...followers.pop()!, caller: 'another address' }
  for (const follower of followers) catchUp.add(follower)
  // The clock does not advance, so the burst of 20,000 rows is available at once, and no more.
  await expect.poll(() => followers.reduce((sum, { seq }) => sum + seq, 0)).toBeGreaterThanOrEqual(20_000)
  for (let count = 0; count < 100; count++) await turn()
  expect(followers.reduce((sum, { seq }) => sum + seq, 0)).toBeLessThanOrEqual(20_100)
  catchUp.add(honest)
  await expect.poll(() => honest.live).toBe(true)
  const afterASecond = () => {
    service.clock.advance(1_000)
    return followers.every(({ live }) => live)
  }
  await expect.poll(afterASecond).toBe(true)
  catchUp.close()
})

// Retention deleted all that the client has missed, and an event is stored while that is read.
it('does not skip an event that is stored during a read that finds nothing', async () => {
  await using service = await openTestService()
  await using opened = await openSockets(1)
  const { deps } = service
  const source = sourceOf(40)
  let reads = 0
  const database = {
    ...deps.database,
    async scan() {
      reads += 1
      if (reads === 1) source.head = 41
      return reads === 1
        ? []
        : [{ ...eventToStore({ severity: 'info', source: 's', event_type: 'n', description: 'd' }, null, 0), seq: 41 }]
    },
  }
  const catchUp = new CatchUp({ ...deps, database: database as never }, source, new StreamBacklog(deps.metrics))
  const [follower] = followersOf(opened.sockets, 1)
  catchUp.add(follower!)
  await expect.poll(() => follower!.live).toBe(true)
  catchUp.close()
  expect([follower!.seq, reads]).toEqual([41, 2])
})
