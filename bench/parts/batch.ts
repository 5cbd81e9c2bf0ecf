import { removeFolder } from '../cleanup.ts'
import type { DatabaseReply, DatabaseTask } from '../database-rate.ts'
import { eventBody } from '../events.ts'
import { startHelper } from '../helper.ts'
import type { Figure } from '../report.ts'
import { faultsOf, pairedRounds, sideOf, startGenerator } from '../rounds.ts'
import { startService } from '../service.ts'
import { median } from '../statistics.ts'

const batchSize = 1_000
const eventBytes = 300
const connectionCount = 4
const roundCount = 5
const seconds = 1
const ownShare = 0.8
const enoughPerSecond = 100_000

/** Batches over HTTP, compared with storing the same batches in the same database in one process. */
export async function measureBatch(): Promise<Figure[]> {
  const schemaOnly = await startService()
  await schemaOnly.stop(false)
  const service = await startService()
  const generator = startGenerator()
  const database = startHelper<DatabaseTask, DatabaseReply>('./database-rate.ts')
  const bodies = Array.from({ length: 4 }, (_, b) =>
    Array.from({ length: batchSize }, (_, n) => eventBody(b * batchSize + n, eventBytes)),
  )
  const load = {
    port: service.port,
    connections: connectionCount,
    requests: bodies.map((body) => service.prepare('POST', '/api/events/batch', body)),
    seconds,
    expect: [200],
    mustContain: '"errors":[]',
  }
  const inserts = { dataDir: schemaOnly.dataDir, seconds, batchSize, eventBytes }
  const warm = await generator.ask({ ...load, seconds: 1 })
  await database.ask({ ...inserts, seconds: 0.5 })
  const pairs = await pairedRounds(
    roundCount,
    () => generator.ask(load),
    () => database.ask(inserts),
  )
  generator.stop()
  database.stop()
  await service.stop()
  removeFolder(schemaOnly.dataDir)

  const results = pairs.map((pair) => pair.a)
  const own = median(pairs.map((pair) => pair.b.perSecond))
  const side = sideOf('service, batches', results)
  return [
    {
      name: `events/s in batches of ${batchSize.toLocaleString('en-US')}`,
      value: side.perSecond! * batchSize,
      unit: 'events/s',
      min: Math.min(enoughPerSecond, ownShare * own),
      sides: [side, { name: 'database, rows', perSecond: own }],
      notes: [`share of the database's own rate: ${median(pairs.map(shareOfOwn)).toFixed(2)}`],
      faults: faultsOf('service', [warm, ...results]),
    },
  ]
}

function shareOfOwn(pair: { a: { perSecond: number }; b: DatabaseReply }): number {
  return (pair.a.perSecond * batchSize) / pair.b.perSecond
}
