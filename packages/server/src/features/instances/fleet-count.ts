import { offlineAfterMs } from '@wardline/contract'
import type { Db } from '../../db/database.ts'
import type { Deps } from '../../deps.ts'
import { countFleet } from './queries.ts'

/** Counts all, active and suspended instances, and reads the time of the latest heartbeat. */
export const fleetCount = (db: Db, now: number) => countFleet(db, now - offlineAfterMs)
export type FleetCount = Awaited<ReturnType<typeof fleetCount>>

/** Updates the metrics of the fleet. */
export async function showFleet({ database: { db }, clock, metrics }: Deps): Promise<void> {
  const { total, active, suspended } = await fleetCount(db, clock.now())
  metrics.instances.set({ status: 'active' }, active)
  metrics.instances.set({ status: 'suspended' }, suspended)
  metrics.instances.set({ status: 'offline' }, total - active - suspended)
}
