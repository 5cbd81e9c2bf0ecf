import { type InstanceView, limits } from '@wardline/contract'
import type { Deps } from '../../deps.ts'
import { viewRow } from './instances.ts'
import { countInstances, type InstanceRow, readFleet, readNewest, readSuspended } from './queries.ts'

interface FleetList {
  /** An `InstanceView` in JSON each. */
  instances: string[]
  /** Instances that are not in the list. */
  omitted: number
}

/**
 * How long the newest heartbeats of a large fleet serve all who ask: finding them reads every instance. For as long
 * again they serve those who ask while they are read again.
 */
const newestKeptMs = 1_000
/** The list ends here; the rest of the answer is small. */
const maxListBytes = limits.statusBytes - 16 * 1024

/** So many of the views as fit. */
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

interface Reading {
  at: number
  rows: Promise<InstanceRow[]>
}

/** The fleet as GET /api/status shows it: whole, or of a large one the suspended and then the newest heartbeats. */
export class FleetLists {
  readonly #deps: Pick<Deps, 'database' | 'clock'>
  #newest: Reading | undefined
  /** Under way. */
  #next: Reading | undefined

  constructor(deps: Pick<Deps, 'database' | 'clock' | 'bus'>) {
    this.#deps = deps
    // Who was just killed or resumed changes places.
    deps.bus.onControl(() => {
      this.#newest = undefined
      this.#next = undefined
    })
  }

  async read(now: number): Promise<FleetList> {
    const { db } = this.#deps.database
    const total = await countInstances(db)
    if (total <= limits.statusInstances) {
      const rows = await this.#deps.database.scan('status', readFleet)
      return { instances: rows.map((row) => JSON.stringify(viewRow(row, now))), omitted: 0 }
    }
    const [suspended, newest] = await Promise.all([readSuspended(db, limits.statusSample), this.#readNewest()])
    const suspendedIds = new Set(suspended.map(({ id }) => id))
    const rows = [...suspended, ...newest.filter(({ id }) => !suspendedIds.has(id))].slice(0, limits.statusSample)
    const instances = withinBytes(rows.map((row) => viewRow(row, now)))
    return { instances, omitted: total - instances.length }
  }

  #readNewest(): Promise<InstanceRow[]> {
    const now = this.#deps.clock.monotonic()
    const known = this.#newest
    const age = known === undefined ? Infinity : now - known.at
    if (known && age < newestKeptMs) return known.rows
    this.#next ??= this.#begin(now)
    return known && age < 2 * newestKeptMs ? known.rows : this.#next.rows
  }

  #begin(at: number): Reading {
    const reading = { at, rows: this.#deps.database.scan('status', (db) => readNewest(db, limits.statusSample)) }
    const settle = (newest: Reading | undefined) => {
      if (this.#next !== reading) return
      this.#next = undefined
      this.#newest = newest
    }
    reading.rows.then(
      () => settle(reading),
      () => settle(undefined),
    )
    return reading
  }
}
