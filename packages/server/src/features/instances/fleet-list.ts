import { type InstanceView, limits } from '@wardline/contract'
import type { Db } from '../../db/database.ts'
import type { Deps } from '../../deps.ts'
import { SharedRun } from '../../shared-run.ts'
import { viewRow } from './instances.ts'
import {
  countInstances,
  countTeam,
  type InstanceRow,
  readAllInstances,
  readNewest,
  readSuspended,
  readTeamInstances,
} from './queries.ts'

export interface FleetList {
  /** Each is an `InstanceView` as JSON. */
  instances: string[]
  /** Number of instances that are not in the list. */
  omitted: number
}

/**
 * How long all callers share one reading of a large fleet's newest heartbeats, because it reads every instance. While
 * it is repeated, callers get the previous reading for as long again.
 */
const newestKeptMs = 1_000
/** Maximum size of the list; the rest of the response is small. */
const maxListBytes = limits.statusBytes - 16 * 1024

/** Serializes as many views as fit. */
function withinBytes(views: readonly InstanceView[]): string[] {
  const texts: string[] = []
  let bytes = 0
  for (const view of views) {
    const text = JSON.stringify(view)
    bytes += Buffer.byteLength(text) + 1
    if (bytes > maxListBytes) break
    texts.push(text)
  }
  return texts
}

/** Returns the team's part of the fleet as in GET /api/status, in the order of ids where it is all of it. */
export async function readTeamList(db: Db, team: readonly string[], now: number): Promise<FleetList> {
  const total = await countTeam(db, team)
  const isWhole = total <= limits.statusInstances
  const rows = await readTeamInstances(db, team, isWhole ? limits.statusInstances : limits.statusSample)
  if (isWhole) rows.sort((one, other) => (one.id < other.id ? -1 : 1))
  const instances = withinBytes(rows.map((row) => viewRow(row, now)))
  return { instances, omitted: Math.max(0, total - instances.length) }
}

/** The fleet as in GET /api/status: all of it or, if it is large, suspended instances and then the newest heartbeats. */
export class FleetLists {
  readonly #deps: Pick<Deps, 'database'>
  readonly #newest: SharedRun<InstanceRow[]>

  constructor({ database, clock, bus }: Pick<Deps, 'database' | 'clock' | 'bus'>) {
    this.#deps = { database }
    const read = () => database.scan('status', (db) => readNewest(db, limits.statusSample))
    this.#newest = new SharedRun(read, { clock, keptMs: newestKeptMs, staleMs: 2 * newestKeptMs })
    // A kill or resume moves the instance in the list.
    bus.onControl(() => this.#newest.forget())
  }

  async read(now: number): Promise<FleetList> {
    const { db } = this.#deps.database
    const total = await countInstances(db)
    if (total <= limits.statusInstances) {
      const rows = await this.#deps.database.scan('status', readAllInstances)
      return { instances: rows.map((row) => JSON.stringify(viewRow(row, now))), omitted: 0 }
    }
    const [suspended, newest] = await Promise.all([readSuspended(db, limits.statusSample), this.#newest.get()])
    const suspendedIds = new Set(suspended.map(({ id }) => id))
    const rows = [...suspended, ...newest.filter(({ id }) => !suspendedIds.has(id))].slice(0, limits.statusSample)
    const instances = withinBytes(rows.map((row) => viewRow(row, now)))
    return { instances, omitted: total - instances.length }
  }
}
