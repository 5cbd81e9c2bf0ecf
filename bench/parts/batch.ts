import { removeFolder } from '../cleanup.ts'
import type { DatabaseReply, DatabaseTask } from '../database-rate.ts'
import { eventBody } from '../events.ts'
import { startHelper } from '../helper.ts'
import type { Figure } from '../report.ts'
import { faultsOf, pairedRounds, sideOf, startGenerator } from '../rounds.ts'
import { startService } from '../service.ts'
import { median } from '../statistics.ts'

const BATCH = 1_000
const EVENT_BYTES = 300
const CONNECTIONS = 4
const ROUNDS = 5
const SECONDS = 1
const OWN_SHARE = 0.8
const ENOUGH_PER_SECOND = 100_000

/** Batches over HTTP against the rate at which the same database takes the same batches in one process. */
export async function measureBatch(): Promise<Figure[]> {
  const schemaOnly = await startService()
  await schemaOnly.stop(false)
  const service = await startService()
  const generator = startGenerator()
  const database = startHelper<DatabaseTask, DatabaseReply>('./database-rate.ts')
  const bodies = Array.from({ length: 4 }, (_, b) =>
    Array.from({ length: BATCH }, (_, n) => eventBody(b * BATCH + n, EVENT_BYTES)),
  )
  const load = {
    port: service.port,
    connections: CONNECTIONS,
    requests: bodies.map((body) => service.prepare('POST', '/api/events/batch', body)),
    seconds: SECONDS,
    expect: [200],
    mustContain: '"errors":[]',
  }
  const inserts = { dataDir: schemaOnly.dataDir, seconds: SECONDS, batchSize: BATCH, eventBytes: EVENT_BYTES }
  const warm = await generator.ask({ ...load, seconds: 1 })
  await database.ask({ ...inserts, seconds: 0.5 })
  const pairs = await pairedRounds(
    ROUNDS,
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
      name: `events/s in batches of ${BATCH.toLocaleString('en-US')}`,
      value: side.perSecond! * BATCH,
      unit: 'events/s',
      atLeast: Math.min(ENOUGH_PER_SECOND, OWN_SHARE * own),
      sides: [side, { name: 'database, rows', perSecond: own }],
      notes: [`share of the database's own rate: ${median(pairs.map(shareOfOwn)).toFixed(2)}`],
      faults: faultsOf('service', [warm, ...results]),
    },
  ]
}

function shareOfOwn(pair: { a: { perSecond: number }; b: DatabaseReply }): number {
  return (pair.a.perSecond * BATCH) / pair.b.perSecond
}
