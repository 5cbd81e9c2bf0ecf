import { writeDecoys } from './database.ts'
import { instanceId } from './events.ts'

/**
 * Writes `count` decoy keys, spread over 100 instances, into the data folder of a service that is stopped: the
 * interface creates them one by one, which would take longer than the measurement.
 */
export function fillDecoys(dataDir: string, count: number): void {
  const instanceIds = Array.from({ length: 100 }, (_, n) => instanceId(n))
  writeDecoys(dataDir, count, instanceIds, Date.now())
}
