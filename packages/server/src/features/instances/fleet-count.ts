import { offlineAfterMs } from '@wardline/contract'
import type { Db } from '../../db/database.ts'
import { countFleet } from './queries.ts'

/** How many instances there are, are active and are suspended, and when the latest heartbeat came. */
export const fleetCount = (db: Db, now: number) => countFleet(db, now - offlineAfterMs)
export type FleetCount = Awaited<ReturnType<typeof fleetCount>>
