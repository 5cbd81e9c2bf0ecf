import { openEventWriter } from './database.ts'
import { eventBody } from './events.ts'

const batchSize = 1_000
/** Half an hour less than a day, so that no event leaves the 24-hour window during the measurement. */
const spanMs = 23.5 * 60 * 60 * 1000

/**
 * Stores `count` events, evenly spread over the last day, in the data folder of a stopped service: of one instance, of
 * the instance that a function names, or of all instances in turn.
 */
export function fillEvents(dataDir: string, count: number, instance?: string | ((n: number) => string)): void {
  const writer = openEventWriter(dataDir)
  const newest = Date.now()
  for (let from = 0; from < count; from += batchSize) {
    const length = Math.min(batchSize, count - from)
    const events = Array.from({ length }, (_, i) => ({
      ...eventBody(from + i, 322),
      ...(instance === undefined ? {} : { instance_id: typeof instance === 'string' ? instance : instance(from + i) }),
      createdAt: Math.floor(newest - (spanMs * (count - from - i)) / count),
    }))
    writer.write(writer.encode(events))
  }
  writer.count()
  writer.close()
}
