import { expect, test } from 'vitest'
import { redisCommand, startRedisCluster, startRedisWithSentinels } from '../../test-servers/redis-groups.ts'
import { readMetric, settingsOn, startProcesses, useServers } from '../cluster.ts'
import { allEvents, anEvent, newInstance, unique } from '../fleet.ts'
import { type Service, until } from '../service.ts'
import type { ControlMessage, Created } from '../shapes.ts'
import { followStream } from '../stream-follower.ts'

const servers = useServers()

const isUp = async (service: Service) => (await readMetric(service, 'wardline_backplane_up')) === 1
const areUp = (services: Service[], what: string) =>
  until(what, async () => (await Promise.all(services.map(isUp))).every(Boolean), Boolean)

/** Published messages arrive at the other process: neither is connected to a server that passes nothing on. */
async function passOn(services: Service[], what: string): Promise<void> {
  for (const [at, from] of services.entries()) {
    const to = services[1 - at]!
    const id = await newInstance(from)
    const stream = await to.openStream(`/api/instances/${id}/control`, { key: to.key })
    expect((await from.call('POST', `/api/kill/${id}`, { body: { reason: what } })).status).toBe(200)
    const message = await stream.next<ControlMessage>((body) => body.action === 'suspend')
    expect(message).toBeDefined()
    stream.close()
  }
}

/** Reports events and kills at both processes until `stop`. */
function load(services: Service[]) {
  const reported: string[] = []
  const kills: { id: string; at: Service }[] = []
  let isOver = false
  const work = Promise.all(
    services.map(async (service) => {
      while (!isOver) {
        const answer = await service.call<Created>('POST', '/api/events', {
          body: anEvent({ description: unique('passed on') }),
        })
        expect(answer.status).toBe(201)
        reported.push(answer.body.id)
        const id = await newInstance(service)
        expect((await service.call('POST', `/api/kill/${id}`, { body: { reason: 'failover' } })).status).toBe(200)
        kills.push({ id, at: service })
      }
    }),
  )
  return {
    reported,
    kills,
    async stop() {
      isOver = true
      await work
    },
  }
}

/** Every event is in each stream once and in order, and every kill holds at both processes. */
async function expectNothingLost(
  services: Service[],
  { reported, kills }: ReturnType<typeof load>,
  followers: Awaited<ReturnType<typeof followStream>>[],
) {
  const rows = (await allEvents(services[0]!)).toReversed()
  const ids = new Set(rows.map(({ id }) => id))
  expect(reported.filter((id) => !ids.has(id))).toEqual([])
  for (const follower of followers) {
    await follower.reaches(rows.length)
    expect(follower.rows.map(({ seq }) => seq)).toEqual(rows.map((_, index) => index + 1))
    await follower.stop()
  }
  for (const service of services) {
    for (const { id } of kills.slice(-20)) {
      const { body } = await service.call<{ suspended: boolean }>('GET', `/api/instances/${id}/status`)
      expect(body.suspended).toBe(true)
    }
  }
}

test('the master that sentinels name is used, and its successor after a failover, with no event or kill lost', async () => {
  const group = await startRedisWithSentinels()
  const databaseUrl = await servers.postgres.createDatabase()
  const settings = { ...settingsOn(databaseUrl, servers.redis), BACKPLANE_URL: group.url }
  const services = await startProcesses(settings, 2)
  await areUp(services, 'the backplane at first')
  await passOn(services, 'at first')
  const followers = await Promise.all(services.map(followStream))
  const work = load(services)

  const first = await group.master()
  await first.kill()
  await group.replaced(first)
  await areUp(services, 'the backplane at the successor')
  await passOn(services, 'after the master was killed')

  // It comes back as a replica, and is made the master again while the other runs.
  await first.start()
  const second = await group.master()
  await until(
    'a failover that is possible',
    () => group.failOver().then(String, String),
    (said) => said === 'OK',
  )
  await group.replaced(second)
  await passOn(services, 'after a failover by hand')
  await work.stop()
  await expectNothingLost(services, work, followers)
  for (const service of services) await service.stop()
  await group.stop()
})

test('each process uses any node of a cluster that is in touch with the others, and another one when it fails', async () => {
  const cluster = await startRedisCluster()
  const [one, two, three] = cluster.nodes as [
    (typeof cluster.nodes)[0],
    (typeof cluster.nodes)[0],
    (typeof cluster.nodes)[0],
  ]
  const databaseUrl = await servers.postgres.createDatabase()
  const shared = settingsOn(databaseUrl, servers.redis)
  const services = await Promise.all([
    startProcesses({ ...shared, BACKPLANE_URL: cluster.urlOf([one, two, three]) }, 1),
    startProcesses({ ...shared, BACKPLANE_URL: cluster.urlOf([two, three, one]) }, 1),
  ]).then((started) => started.flat())
  await areUp(services, 'the backplane at first')
  await passOn(services, 'between two nodes')
  const followers = await Promise.all(services.map(followStream))
  const work = load(services)
  await one.kill()
  await areUp(services, 'the backplane without a node')
  await passOn(services, 'after a node was killed')
  // The last one of three cannot know what the others have: neither process uses it.
  await two.kill()
  await until(
    'the last node to notice it',
    () => redisCommand(three.port, 'CLUSTER', 'INFO').then(String),
    (said) => said.includes('cluster_state:fail'),
  )
  const isAnyUp = async () => (await Promise.all(services.map(isUp))).some(Boolean)
  await until('both without a backplane', isAnyUp, (some) => !some)
  await one.start()
  await two.start()
  await work.stop()
  await expectNothingLost(services, work, followers)
  await areUp(services, 'the backplane at the end')
  expect(services.some((service) => service.logs().includes('lost touch with most of its cluster'))).toBe(true)
  for (const service of services) await service.stop()
  await cluster.stop()
})
