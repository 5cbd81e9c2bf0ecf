import { offlineAfterMs } from '@wardline/contract'
import type { Db } from '../../db/database.ts'
import type { Deps } from '../../deps.ts'
import { countFleet } from './queries.ts'

/** How many instances there are, are active and are suspended, and when the latest heartbeat came. */
export const fleetCount = (db: Db, now: number) => countFleet(db, now - offlineAfterMs)
export type FleetCount = Awaited<ReturnType<typeof fleetCount>>

/** Brings the fleet's gauges up to date. */
export async function showFleet({ database: { db }, clock, metrics }: Deps): Promise<void> {
  const { total, active, suspended } = await fleetCount(db, clock.now())
  metrics.instances.set({ status: 'active' }, active)
  metrics.instances.set({ status: 'suspended' }, suspended)
  metrics.instances.set({ status: 'offline' }, total - active - suspended)
}
