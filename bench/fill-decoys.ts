import { writeDecoys } from './database.ts'
import { instanceId } from './events.ts'

/**
 * Stores `count` decoy keys of 100 instances in the data folder of a stopped service, because creating them one by one
 * with the API would take longer than the measurement.
 */
export function fillDecoys(dataDir: string, count: number): void {
  const instanceIds = Array.from({ length: 100 }, (_, n) => instanceId(n))
  writeDecoys(dataDir, count, instanceIds, Date.now())
}
