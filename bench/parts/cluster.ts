import { setTimeout as sleep } from 'node:timers/promises'
import type { TestPostgres } from '../../test-servers/postgres.ts'
import { startRedis, type TestRedis } from '../../test-servers/redis.ts'
import { type ControlClient, followControl } from '../control-client.ts'
import { eventBody, instanceId } from '../events.ts'
import { queryRows, startDurablePostgres, startOn } from '../postgres-database.ts'
import type { Figure } from '../report.ts'
import { faultsOf, pairedRounds, sideOf, startGenerator } from '../rounds.ts'
import type { Service } from '../service.ts'
import { median, quantile } from '../statistics.ts'
import { fleets, measureFleet } from './containment.ts'

const roundCount = 8
const seconds = 1
const connectionCount = 256
const eventBytes = 322

const agentCount = 20
const changeCount = 500
const changesWithoutRedis = 40
const withRedisMs = 50
const withoutRedisMs = 2_000

/** Two processes that share PostgreSQL and Redis, all on the same cores. */
export async function measureCluster(): Promise<Figure[]> {
  await using postgres = await startDurablePostgres()
  await using redis = await startRedis()
  const url = await postgres.createDatabase()
  const first = await startOn(url, { BACKPLANE_URL: redis.url })
  const second = await startOn(url, { BACKPLANE_URL: redis.url })
  const figures = [await measureTwo(first, second), ...(await measureKills(first, second, redis))]
  await first.stop()
  await second.stop()
  for (const hasBackplane of [true, false]) figures.push(...(await measureFleets(postgres, hasBackplane)))
  return figures
}

/** Suspensions requested at one process, of SDK agents connected to the other. */
async function measureFleets(postgres: TestPostgres, hasBackplane: boolean): Promise<Figure[]> {
  const figures: Figure[] = []
  for (const count of fleets) {
    await using redis = await startRedis()
    const url = await postgres.createDatabase()
    const service = await startOn(url, { BACKPLANE_URL: redis.url })
    const agentsAt = await startOn(url, { BACKPLANE_URL: redis.url })
    if (!hasBackplane) await redis.kill()
    figures.push(...(await measureFleet({ service, agentsAt, rows: (sql) => queryRows(url, sql) }, count)))
    await agentsAt.stop()
    await service.stop()
  }
  const where = hasBackplane ? '2 processes' : 'the same, backplane down'
  return figures.map((figure) => ({ ...figure, name: `${figure.name}, ${where}` }))
}

/** The same connections on one process, and distributed over two. */
async function measureTwo(first: Service, second: Service): Promise<Figure> {
  const bodies = Array.from({ length: 64 }, (_, n) => eventBody(n, eventBytes))
  const generators = [startGenerator(), startGenerator()] as const
  const task = (service: Service, connections: number) => ({
    port: service.port,
    connections,
    seconds,
    expect: [201],
    requests: bodies.map((body) => service.prepare('POST', '/api/events', body)),
  })
  const ofOne = async () => [await generators[0].ask(task(first, connectionCount))]
  const ofTwo = () =>
    Promise.all([
      generators[0].ask(task(first, connectionCount / 2)),
      generators[1].ask(task(second, connectionCount / 2)),
    ])
  const warm = [...(await ofOne()), ...(await ofTwo())]
  const pairs = await pairedRounds(roundCount, ofTwo, ofOne)
  for (const generator of generators) generator.stop()
  const rate = (results: { perSecond: number }[]) => results.reduce((sum, { perSecond }) => sum + perSecond, 0)
  const rounds = pairs.map(({ a, b }) => rate(a) / rate(b))
  return {
    name: 'single events, 2 processes',
    value: median(rounds),
    unit: '× 1 process',
    min: 1,
    sides: [
      { name: '2 processes', perSecond: median(pairs.map(({ a }) => rate(a))) },
      sideOf(
        '1 process',
        pairs.flatMap(({ b }) => b),
      ),
    ],
    rounds,
    notes: ['all processes, the database, the backplane and the generators share the cores'],
    faults: faultsOf('service', [...warm, ...pairs.flatMap(({ a, b }) => [...a, ...b])]),
  }
}

/** Milliseconds from the request at `first` until the agent connected to `second` has the message. */
async function measureKills(first: Service, second: Service, redis: TestRedis): Promise<Figure[]> {
  const agents: ControlClient[] = []
  for (let n = 0; n < agentCount; n++) {
    await first.call('POST', '/api/heartbeat', [200], { instance_id: instanceId(n), name: `Bench agent ${n}` })
    agents.push(await followControl(second, instanceId(n)))
  }
  const suspended = new Set<number>()
  async function change(count: number): Promise<number[]> {
    const times: number[] = []
    for (let n = 0; n < count; n++) {
      const agent = n % agentCount
      const isKill = !suspended.has(agent)
      const came = agents[agent]!.next()
      const startedAt = performance.now()
      const path = `/api/${isKill ? 'kill' : 'resume'}/${instanceId(agent)}`
      await first.call('POST', path, [200], isKill ? { reason: 'benchmark' } : undefined)
      times.push((await came) - startedAt)
      if (isKill) suspended.add(agent)
      else suspended.delete(agent)
    }
    return times
  }
  await change(agentCount * 2)
  const live = figureOf('kill at one, message at the other', await change(changeCount), withRedisMs)
  await redis.kill()
  await sleep(1_000)
  const degraded = figureOf('the same, backplane down', await change(changesWithoutRedis), withoutRedisMs)
  for (const agent of agents) agent.close()
  return [live, degraded]
}

function figureOf(name: string, times: number[], max: number): Figure {
  const sorted = Float64Array.from(times).sort()
  return {
    name: `${name}, p99`,
    value: quantile(sorted, 0.99),
    unit: 'ms',
    max,
    sides: [{ name: `${times.length} changes`, p50Ms: quantile(sorted, 0.5), p99Ms: quantile(sorted, 0.99) }],
    notes: [`the slowest took ${sorted.at(-1)!.toFixed(1)} ms`],
    faults: [],
  }
}
