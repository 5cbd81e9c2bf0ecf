import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { type CurrentSuspension, limits, type SharedFleet } from '@wardline/contract'
import { isoTime, isoTimeOrNull } from '../../clock.ts'
import type { Point } from '../../config/enforcement-points.ts'
import type { Team } from '../../db/teams.ts'
import type { Deps } from '../../deps.ts'
import { SharedRun } from '../../shared-run.ts'
import { enforcingLevers, pointsFor, reachOf } from './enforcing-levers.ts'
import { namesOf, readHeardBy } from './heard-by.ts'
import type { WitnessRow } from './heard-by-statements.ts'
import { isSilent, readSuspensionStates, type SuspensionStates, viewRow } from './instances.ts'
import { readShared, type SharedRow } from './queries.ts'
import { readTags } from './tags.ts'

/** All callers within this time share one reading: 200 dashboards poll every five seconds each. */
const keptMs = 2_000
/** Rows read and serialized in one turn of the scan lane: some ten milliseconds. */
const chunkRows = 2_500
/** Maximum number of cached pages: invented cursors must not fill the memory. */
const maxPages = 16
/** Below this size, compression costs more than it saves. */
const minGzipBytes = 4_096

const compress = promisify(gzip)

interface SharedPage {
  text: string
  /** Undefined for small pages. */
  gzip: Buffer | undefined
}

function viewShared(
  row: SharedRow,
  now: number,
  suspension: CurrentSuspension | undefined,
  points: readonly Point[],
  heard: readonly WitnessRow[] | undefined,
): SharedFleet['instances'][number] {
  const { control_version: version, applied_version } = row
  const reach = reachOf(row)
  const levers = enforcingLevers(reach, pointsFor(points, reach), now)
  const control = {
    version,
    changed_at: isoTimeOrNull(row.control_changed_at),
    applied_version,
    applied_at: isoTimeOrNull(row.applied_at),
    confirmed: version === 0 || applied_version === version,
  }
  return {
    ...viewRow(row, now),
    tags: reach.tags,
    operator_tags: readTags(row.operator_tags),
    version: row.version,
    fail_mode: row.fail_mode,
    ...(isSilent(row, now) ? { silent: true } : {}),
    suspension: suspension ?? null,
    ...(version === 0 && applied_version === null ? {} : { control }),
    ...(row.last_proven_at === null ? {} : { last_proven_stoppable_at: isoTime(row.last_proven_at) }),
    ...(levers.length > 0 ? { enforcing_levers: levers } : {}),
    ...(heard ? { heard_by: namesOf(heard) } : {}),
  }
}

/** The fleet as dashboards show it, read and compressed once for all callers of a team within two seconds. */
export class SharedFleets {
  readonly #deps: Pick<Deps, 'database' | 'clock'>
  readonly #suspensionStates: SuspensionStates
  readonly #points: readonly Point[]
  readonly #pages = new Map<string, SharedRun<SharedPage>>()

  constructor(
    deps: Pick<Deps, 'database' | 'clock' | 'bus'>,
    {
      suspensionStates,
      enforcement,
    }: { suspensionStates: SuspensionStates; enforcement: { points: readonly Point[] } },
  ) {
    this.#deps = deps
    this.#points = enforcement.points
    this.#suspensionStates = suspensionStates
    // A kill or resume changes the status of an instance.
    deps.bus.onControl(() => this.forget())
  }

  /** Returns the page after an id. */
  read(after: string, team: Team): Promise<SharedPage> {
    const name = JSON.stringify([after, team])
    const known = this.#pages.get(name)
    if (known) return known.get()
    if (this.#pages.size >= maxPages) this.#pages.clear()
    const page = new SharedRun(() => this.#make(after, team), { clock: this.#deps.clock, keptMs })
    this.#pages.set(name, page)
    return page.get()
  }

  /** Drops all cached pages. */
  forget(): void {
    for (const page of this.#pages.values()) page.forget()
  }

  async #make(first: string, team: Team): Promise<SharedPage> {
    const { database, clock } = this.#deps
    const now = clock.now()
    const texts: string[] = []
    let bytes = 0
    let last = first
    let next: string | null = null
    for (let isEnd = false; !isEnd; ) {
      const { rows, suspensions, heard } = await database.scan('fleet', async (db) => {
        const rows = await readShared(db, { team, after: last, limit: chunkRows + 1 })
        const ids = rows.map(({ id }) => id)
        const suspensions = await readSuspensionStates(db, rows, this.#suspensionStates)
        return { rows, suspensions, heard: await readHeardBy(db, ids, now) }
      })
      // One row more than the chunk shows whether there is a next page.
      const hasMore = rows.length > chunkRows
      for (const row of rows.slice(0, chunkRows)) {
        const text = JSON.stringify(viewShared(row, now, suspensions.get(row.id), this.#points, heard.get(row.id)))
        texts.push(text)
        bytes += Buffer.byteLength(text)
        last = row.id
        if (bytes > limits.fleetBytes) break
      }
      const isFull = texts.length >= limits.fleetPage || bytes > limits.fleetBytes
      if (isFull && (hasMore || last !== rows.at(-1)!.id)) next = last
      isEnd = isFull || !hasMore
    }
    const text = `{"at":"${isoTime(now)}","instances":[${texts.join(',')}],"next":${JSON.stringify(next)}}`
    return { text, gzip: bytes < minGzipBytes ? undefined : await compress(text, { level: 2 }) }
  }
}
