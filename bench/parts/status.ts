import { instanceId } from '../events.ts'
import { fillEvents } from '../fill-events.ts'
import { fillInstances } from '../fill-instances.ts'
import type { Figure } from '../report.ts'
import { pairedLoads, ratios, sideOf } from '../rounds.ts'
import { type Service, startService } from '../service.ts'
import { median } from '../statistics.ts'

const fewCount = 1_000
const manyCount = 1_000_000
const instanceCount = 100
const roundCount = 9
const seconds = 0.7
const maxRatio = 1.2
const fleetSize = 100_000

/** The dashboard's status on one connection: a million stored events must not cost more than a thousand. */
export async function measureStatus(): Promise<Figure[]> {
  const faults: string[] = []
  const few = await filledService(fewCount, faults)
  const many = await filledService(manyCount, faults)
  const task = (service: Service) => ({
    port: service.port,
    connections: 1,
    requests: [service.prepare('GET', '/api/status')],
    seconds,
    expect: [200],
  })
  const pairs = await pairedLoads(roundCount, { ...task(many), name: 'many' }, { ...task(few), name: 'few' })
  await few.stop()
  await many.stop()
  const sides = [sideOf('1,000,000 events', pairs.a), sideOf('1,000 events', pairs.b)]
  const shared = { unit: '× at 1,000', max: maxRatio, notes: [], faults: [...faults, ...pairs.faults] }
  const byP50 = ratios(pairs, (result) => result.p50Ms)
  const byMean = ratios(pairs, (result) => result.meanMs)
  return [
    ...(await measureLargeFleet()),
    { ...shared, name: 'p50 at 1,000,000 events', value: median(byP50), sides, rounds: byP50 },
    { ...shared, name: 'mean at 1,000,000 events', value: median(byMean), sides: [], rounds: byMean },
  ]
}

/** The status with 100,000 instances, most of which are not listed. */
async function measureLargeFleet(): Promise<Figure[]> {
  const empty = await startService()
  await empty.stop(false)
  fillInstances(empty.dataDir, fleetSize)
  const service = await startService(empty.dataDir)
  const requests = [service.prepare('GET', '/api/status')]
  const task = { port: service.port, connections: 1, requests, seconds, expect: [200], name: 'fleet' }
  const pairs = await pairedLoads(roundCount, task, task)
  const { text } = await service.call('GET', '/api/status', [200])
  await service.stop()
  const mib = Buffer.byteLength(text) / 1024 / 1024
  const sides = [sideOf('100,000 instances', [...pairs.a, ...pairs.b])]
  const shared = { notes: [], faults: pairs.faults, sides }
  const rounds = [...pairs.a, ...pairs.b].map((result) => result.p99Ms)
  return [
    { ...shared, name: 'p99 at 100,000 instances', unit: 'ms', max: 20, value: median(rounds), rounds },
    { ...shared, name: 'answer at 100,000 instances', unit: 'MiB', max: 1, value: mib, rounds: [mib], sides: [] },
  ]
}

/** Starts a service with `count` events of the last day and 100 instances; a wrong count is a fault. */
async function filledService(count: number, faults: string[]): Promise<Service> {
  const empty = await startService()
  await empty.stop(false)
  fillEvents(empty.dataDir, count)
  const service = await startService(empty.dataDir)
  for (let n = 0; n < instanceCount; n++) {
    const id = instanceId(n)
    await service.call('POST', '/api/heartbeat', [200], { instance_id: id, name: `Bench agent ${n}` })
  }
  const { text } = await service.call('GET', '/api/status', [200])
  const status = JSON.parse(text) as { instances: unknown[]; stats: Record<string, number> }
  const counted = Object.values(status.stats).reduce((sum, value) => sum + value, 0)
  if (counted !== count) faults.push(`the service counts ${counted} events where ${count} are stored`)
  if (status.instances.length !== instanceCount) faults.push(`the service lists ${status.instances.length} instances`)
  return service
}
