import type { BareReply, BareTask } from '../bare-server.ts'
import { eventBody, instanceId } from '../events.ts'
import { startHelper } from '../helper.ts'
import { fillInstances, fillPostgresEvents, startDurablePostgres, startOn } from '../postgres-database.ts'
import type { Figure } from '../report.ts'
import { requestText } from '../request.ts'
import { faultsOf, generatorNotes, pairedLoads, ratios, sideOf, startGenerator } from '../rounds.ts'
import type { Service } from '../service.ts'
import { median } from '../statistics.ts'

const roundCount = 8
const seconds = 1
const eventTargets = [
  { connections: 64, min: 0.5 },
  { connections: 256, min: 0.6 },
]
const heartbeatTargets = [
  { connections: 64, min: 0.5 },
  { connections: 256, min: 0.5 },
]

const eventBytes = 322
const batchSize = 1_000
const batchRounds = 5
const batchConnections = 4
const batchEventsPerSecond = 40_000

const knownInstanceCount = 100_000
/** Instances used, spread over all stored ones. */
const beatingInstanceCount = 20_000

const fewCount = 1_000
const manyCount = 1_000_000
const statusRounds = 9
const statusMax = 1.2

/** One process on PostgreSQL, the server on the same cores. */
export async function measurePostgres(): Promise<Figure[]> {
  await using postgres = await startDurablePostgres()
  return [
    ...(await measureSingleEvents(await postgres.createDatabase())),
    ...(await measureBatches(await postgres.createDatabase())),
    ...(await measureHeartbeats(await postgres.createDatabase())),
    ...(await measureStatus(await postgres.createDatabase(), await postgres.createDatabase())),
  ]
}

interface Requests {
  name: string
  path: string
  status: number
  bodies: unknown[]
  targets: { connections: number; min: number }[]
}

/** One kind of request, compared with a server that parses the same bytes and stores nothing. */
async function againstBare(service: Service, { name, path, status, bodies, targets }: Requests): Promise<Figure[]> {
  const sample = await service.call('POST', path, [status], bodies[0])
  const bare = startHelper<BareTask, BareReply>('./bare-server.ts')
  const { port } = await bare.ask({ kind: 'post', status, reply: sample.text })
  const figures: Figure[] = []
  for (const { connections, min } of targets) {
    const shared = { connections, seconds, expect: [status] }
    const served = bodies.map((body) => service.prepare('POST', path, body))
    const parsed = bodies.map((body) => requestText(port, 'POST', path, {}, body))
    const pairs = await pairedLoads(
      roundCount,
      { ...shared, name: 'service', port: service.port, requests: served },
      { ...shared, name: 'bare', port, requests: parsed },
    )
    const rounds = ratios(pairs, (result) => result.perSecond)
    figures.push({
      name: `${name}, ${connections} connections`,
      value: median(rounds),
      unit: '× bare',
      min,
      sides: [sideOf('service', pairs.a), sideOf('bare node:http', pairs.b)],
      rounds,
      notes: generatorNotes(pairs.b),
      faults: pairs.faults,
    })
  }
  bare.stop()
  return figures
}

async function measureSingleEvents(url: string): Promise<Figure[]> {
  const service = await startOn(url)
  const bodies = Array.from({ length: 64 }, (_, n) => eventBody(n, eventBytes))
  const figures = await againstBare(service, {
    name: 'single events',
    path: '/api/events',
    status: 201,
    bodies,
    targets: eventTargets,
  })
  await service.stop()
  return figures
}

async function measureHeartbeats(url: string): Promise<Figure[]> {
  const service = await startOn(url)
  await fillInstances(url, knownInstanceCount)
  const step = knownInstanceCount / beatingInstanceCount
  const bodies = Array.from({ length: beatingInstanceCount }, (_, n) => ({
    instance_id: `bench-agent-${1 + n * step}`,
    name: `Bench agent ${n}`,
  }))
  const figures = await againstBare(service, {
    name: 'heartbeats',
    path: '/api/heartbeat',
    status: 200,
    bodies,
    targets: heartbeatTargets,
  })
  await service.stop()
  return figures
}

async function measureBatches(url: string): Promise<Figure[]> {
  const service = await startOn(url)
  const bodies = Array.from({ length: 4 }, (_, b) =>
    Array.from({ length: batchSize }, (_, n) => eventBody(b * batchSize + n, eventBytes)),
  )
  const generator = startGenerator()
  const load = {
    port: service.port,
    connections: batchConnections,
    requests: bodies.map((body) => service.prepare('POST', '/api/events/batch', body)),
    seconds,
    expect: [200],
    mustContain: '"errors":[]',
  }
  const results = [await generator.ask(load)]
  for (let round = 0; round < batchRounds; round++) results.push(await generator.ask(load))
  generator.stop()
  await service.stop()
  const side = sideOf('service, batches', results.slice(1))
  return [
    {
      name: 'batches of 1,000',
      value: side.perSecond! * batchSize,
      unit: 'events/s',
      min: batchEventsPerSecond,
      sides: [side],
      notes: [],
      faults: faultsOf('service', results),
    },
  ]
}

async function filledService(url: string, count: number): Promise<Service> {
  const empty = await startOn(url)
  await empty.stop()
  await fillPostgresEvents(url, count)
  const service = await startOn(url)
  for (let n = 0; n < 100; n++) {
    await service.call('POST', '/api/heartbeat', [200], { instance_id: instanceId(n), name: `Bench agent ${n}` })
  }
  return service
}

async function measureStatus(fewUrl: string, manyUrl: string): Promise<Figure[]> {
  const few = await filledService(fewUrl, fewCount)
  const many = await filledService(manyUrl, manyCount)
  const task = (service: Service) => ({
    port: service.port,
    connections: 1,
    requests: [service.prepare('GET', '/api/status')],
    seconds: 0.7,
    expect: [200],
  })
  const { text } = await many.call('GET', '/api/status', [200])
  const counted = Object.values((JSON.parse(text) as { stats: Record<string, number> }).stats)
  const total = counted.reduce((sum, value) => sum + value, 0)
  const faults = total === manyCount ? [] : [`the service counts ${total} events where ${manyCount} are stored`]
  const pairs = await pairedLoads(statusRounds, { ...task(many), name: 'many' }, { ...task(few), name: 'few' })
  await few.stop()
  await many.stop()
  const rounds = ratios(pairs, (result) => result.p50Ms)
  return [
    {
      name: 'status at 1,000,000 events, p50',
      value: median(rounds),
      unit: '× at 1,000',
      max: statusMax,
      sides: [sideOf('1,000,000 events', pairs.a), sideOf('1,000 events', pairs.b)],
      rounds,
      notes: [],
      faults: [...faults, ...pairs.faults],
    },
  ]
}
