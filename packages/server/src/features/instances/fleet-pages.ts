import type { FleetQuery, FleetSort, SharedFleet, SuspensionState } from '@wardline/contract'
import { isoTime } from '../../clock.ts'
import type { Point } from '../../config/enforcement-points.ts'
import type { Team } from '../../db/teams.ts'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import { SharedRun } from '../../shared-run.ts'
import { and, type Condition, hasStatus, matchesFilter, namedIn } from './fleet-filter-statements.ts'
import { groupName, mayBeInGroup } from './fleet-group-statements.ts'
import { failPhases, isBeyond, onlyPhase, type Phase, statusPhases, valuePhases } from './fleet-order-statements.ts'
import type { FleetParts } from './fleet-parts.ts'
import { isInPart, type Part, readCount } from './fleet-scan-statements.ts'
import { type ListedAgent, mayWork, viewAgents } from './fleet-view.ts'
import { namedIds, type SuspensionStates } from './instances.ts'
import { readFleetValues, readShared, type SharedRow, type ValueColumn } from './queries.ts'

/** Up to so many agents that match are sorted exactly. More are listed value by value, each in the order of ids. */
const maxSorted = 2_000
/** Statements of one answer, each of which reads at most a part; an answer to a rare filter ends before its page is full. */
const maxStatements = 10
/** Values by which a large fleet is listed; agents with others come last. */
const maxValues = 500
const valuesKeptMs = 30_000
const maxShare = 0.1

const worstFirst: readonly SuspensionState[] = [
  ...(['violated', 'unconfirmed', 'pending', 'delivered', 'partial', 'quiet'] as const),
  ...(['confirmed', 'proven', 'enforced'] as const),
]
/** Created once: a new collator for each comparison would take most of a second for ten thousand agents. */
const versions = new Intl.Collator('en', { numeric: true })
const textOrder = (one: string, other: string) => (one < other ? -1 : one === other ? 0 : 1)
const rankOf = ({ status, suspension }: ListedAgent) =>
  status === 'suspended'
    ? worstFirst.indexOf(suspension?.state ?? 'pending')
    : worstFirst.length + Number(status === 'active')
const compares: Record<FleetSort, (one: ListedAgent, other: ListedAgent) => number> = {
  id: (one, other) => textOrder(one.id, other.id),
  status: (one, other) => rankOf(one) - rankOf(other),
  version: (one, other) => versions.compare(one.version ?? '', other.version ?? ''),
  // Agents that continue without the service ("open") come first.
  fails: (one, other) => textOrder(other.fail_mode ?? '', one.fail_mode ?? ''),
  control: (one, other) => (one.control?.applied_version ?? -1) - (other.control?.applied_version ?? -1),
  heartbeat: (one, other) => textOrder(one.last_heartbeat, other.last_heartbeat),
}

/** Where a page ended: the value and id of its last row, and how many rows precede it. */
interface Cursor {
  value: string
  id: string
  skipped: number
}

function readCursor(given: string | undefined): Cursor | undefined {
  if (given === undefined) return undefined
  try {
    const [value, id, skipped] = JSON.parse(Buffer.from(given, 'base64url').toString())
    if (typeof value === 'string' && typeof id === 'string' && Number.isInteger(skipped)) return { value, id, skipped }
  } catch {}
  throw new AppError('invalid', 'after must be `next` of an earlier page.')
}
const cursorText = ({ value, id, skipped }: Cursor): string =>
  Buffer.from(JSON.stringify([value, id, skipped])).toString('base64url')

interface Reading {
  where: Condition
  now: number
  isDown: boolean
  limit: number
  cursor: Cursor | undefined
  /** What the database cannot decide. */
  matches(agent: ListedAgent): boolean
}

interface PageParts {
  fleetParts: FleetParts
  suspensionStates: SuspensionStates
  enforcement: { points: readonly Point[] }
}

interface Page {
  agents: ListedAgent[]
  next: Cursor | null
}

/** Pages of the fleet as dashboards list it. */
export class FleetPages {
  readonly #deps: Pick<Deps, 'database' | 'clock'>
  readonly #parts: PageParts
  readonly #values = new Map<ValueColumn, SharedRun<(string | number | null)[]>>()

  constructor(deps: Pick<Deps, 'database' | 'clock'>, parts: PageParts) {
    this.#deps = deps
    this.#parts = parts
    for (const column of ['version', 'applied_version'] as const) {
      const run = new SharedRun(() => this.#readValues(column), { clock: deps.clock, keptMs: valuesKeptMs, maxShare })
      this.#values.set(column, run)
    }
  }

  /** Throws AppError `invalid` for a cursor that no answer had, or too many ids. */
  async read(
    query: FleetQuery,
    { team, limit, caller }: { team: Team; limit: number; caller: string },
  ): Promise<SharedFleet> {
    const now = this.#deps.clock.now()
    const { status, group, in: name, from, sort = 'id' } = query
    const ids = namedIds(query.ids)
    const reading: Reading = {
      where: and([
        matchesFilter(query, { team, now, points: this.#points }),
        ...(status ? [hasStatus(status, { team, now, points: this.#points })] : []),
        ...namedIn({ from, ids }),
        ...(group !== undefined && name !== undefined ? [mayBeInGroup(group, name)] : []),
      ]),
      now,
      isDown: query.down === 'true',
      limit,
      cursor: readCursor(query.after),
      matches: ({ tags, suspension }) =>
        (status !== 'unconfirmed' || (suspension !== null && mayWork(suspension.state))) &&
        (group === undefined || name === undefined || groupName(tags, group) === name),
    }
    const sorted = sort === 'id' ? undefined : await this.#readSorted(reading, compares[sort], caller)
    const { agents, next } =
      sorted ??
      (sort === 'heartbeat'
        ? await this.#readByHeartbeat(reading, caller)
        : await this.#readPhases(reading, await this.#phasesOf(sort, now), caller))
    return { at: isoTime(now), instances: agents, next: next && cursorText(next) }
  }

  get #points() {
    return this.#parts.enforcement.points
  }

  #view(
    { where, now, isDown }: Reading,
    { part, limit, column }: { part: Part; limit: number; column?: 'last_heartbeat_at' },
    caller: string,
  ): Promise<{ rows: SharedRow[]; agents: ListedAgent[] }> {
    return this.#deps.database.scan(caller, async (db) => {
      const rows = await readShared(db, and([isInPart(part), where]), { isDown, limit, column })
      return { rows, agents: await viewAgents(db, rows, { now, points: this.#points, ...this.#parts }) }
    })
  }

  /** Reads all agents that match, if they are few enough to sort them here. */
  async #readSorted(
    reading: Reading,
    compare: (one: ListedAgent, other: ListedAgent) => number,
    caller: string,
  ): Promise<Page | undefined> {
    const parts = await this.#parts.fleetParts.read()
    let count = 0
    for (const part of parts) {
      count += await this.#deps.database.scan(caller, (db) => readCount(db, reading.where, part, maxSorted + 1))
      if (count > maxSorted) return undefined
    }
    const found: ListedAgent[] = []
    for (const part of parts) {
      const { agents } = await this.#view(reading, { part, limit: maxSorted }, caller)
      found.push(...agents.filter(reading.matches))
    }
    found.sort((one, other) => compare(one, other) || compares.id(one, other))
    if (reading.isDown) found.reverse()
    const { cursor, limit } = reading
    const place = cursor === undefined ? 0 : found.findIndex(({ id }) => id === cursor.id) + 1
    // The last row of the page before may be gone.
    const first = place === 0 && cursor ? cursor.skipped : place
    const agents = found.slice(first, first + limit)
    const isEnd = first + limit >= found.length
    return { agents, next: isEnd ? null : { value: '', id: agents.at(-1)!.id, skipped: first + limit } }
  }

  async #readPhases(reading: Reading, phases: readonly Phase[], caller: string): Promise<Page> {
    const { isDown, limit, cursor } = reading
    const ordered = isDown ? phases.toReversed() : phases
    const found: ListedAgent[] = []
    const parts = await this.#parts.fleetParts.read()
    if (isDown) parts.reverse()
    let statements = 0
    const begun = Math.max(0, cursor ? ordered.findIndex(({ value }) => value === cursor.value) : 0)
    const pageAt = (value: string, id: string): Page => ({
      agents: found,
      next: { value, id, skipped: (cursor?.skipped ?? 0) + found.length },
    })
    for (const [index, { value, where }] of ordered.slice(begun).entries()) {
      let at = index === 0 ? cursor?.id : undefined
      for (const whole of parts) {
        for (let isEnd = false; !isEnd; ) {
          const part = rest(whole, at, isDown)
          if (part === undefined) break
          if (statements >= maxStatements && found.length < limit)
            return pageAt(value, at ?? (isDown ? `${whole.upTo ?? '~'}!` : whole.after))
          statements += 1
          const wanted = { part, limit: limit - found.length + 1 }
          const { rows, agents } = await this.#view({ ...reading, where: and([reading.where, where]) }, wanted, caller)
          for (const agent of agents) {
            // One row more than the page shows whether there is a next one.
            if (found.length >= limit) return pageAt(value, at!)
            at = agent.id
            if (reading.matches(agent)) found.push(agent)
          }
          isEnd = rows.length < wanted.limit
        }
        at = isDown ? `${whole.after}!` : (whole.upTo ?? at)
      }
    }
    return { agents: found, next: null }
  }

  /** Reads the next rows of each part, and of these the first: no index could follow a heartbeat a minute of each agent. */
  async #readByHeartbeat(reading: Reading, caller: string): Promise<Page> {
    const { isDown, limit, cursor, where } = reading
    const compare = (one: ListedAgent, other: ListedAgent) =>
      (compares.heartbeat(one, other) || compares.id(one, other)) * (isDown ? -1 : 1)
    let found: ListedAgent[] = []
    const next = cursor ? and([where, isBeyond({ at: Number(cursor.value), id: cursor.id }, isDown)]) : where
    for (const part of await this.#parts.fleetParts.read()) {
      const order = { part, limit: limit + 1, column: 'last_heartbeat_at' as const }
      const { agents } = await this.#view({ ...reading, where: next }, order, caller)
      found = [...found, ...agents.filter(reading.matches)].sort(compare).slice(0, limit + 1)
    }
    const agents = found.slice(0, limit)
    const last = agents.at(-1)
    if (!last || found.length <= limit) return { agents, next: null }
    const value = String(Date.parse(last.last_heartbeat))
    return { agents, next: { value, id: last.id, skipped: (cursor?.skipped ?? 0) + limit } }
  }

  async #phasesOf(sort: FleetSort, now: number): Promise<readonly Phase[]> {
    if (sort === 'status') return statusPhases(now)
    if (sort === 'fails') return failPhases
    if (sort !== 'version' && sort !== 'control') return [onlyPhase]
    const column = sort === 'version' ? 'version' : 'applied_version'
    return valuePhases(column, await this.#values.get(column)!.get(), maxValues)
  }

  async #readValues(column: ValueColumn): Promise<(string | number | null)[]> {
    const values = new Set<string | number | null>()
    for (const part of await this.#parts.fleetParts.read()) {
      const found = await this.#deps.database.scan('fleet', (db) =>
        readFleetValues(db, column, isInPart(part), maxValues + 1),
      )
      for (const value of found) values.add(value)
    }
    return [...values].sort((one, other) =>
      column === 'version'
        ? versions.compare(String(one ?? ''), String(other ?? ''))
        : Number(one ?? -1) - Number(other ?? -1),
    )
  }
}

/** What remains of a part after an id, in the order of the list; undefined if nothing does. */
function rest({ after, upTo }: Part, at: string | undefined, isDown: boolean): Part | undefined {
  if (at === undefined) return { after, upTo }
  if (isDown) return at <= after ? undefined : { after, upTo, before: at }
  if (upTo !== undefined && at >= upTo) return undefined
  return { after: at > after ? at : after, upTo }
}
