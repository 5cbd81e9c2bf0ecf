import { createHash } from 'node:crypto'
import {
  type FleetCounts,
  type FleetMark,
  type FleetState,
  type FleetSummary,
  limits,
  type SuspensionState,
  suspensionStates as stateNames,
} from '@wardline/contract'
import { isoTime } from '../../clock.ts'
import type { Point } from '../../config/enforcement-points.ts'
import type { Db } from '../../db/database.ts'
import type { Team } from '../../db/teams.ts'
import type { Deps } from '../../deps.ts'
import { SharedRuns } from '../../shared-run.ts'
import {
  type FleetFilter,
  type FleetReading,
  filterKey,
  isFilter,
  laneOf,
  matchesFilter,
} from './fleet-filter-statements.ts'
import { type FleetParts, partSize } from './fleet-parts.ts'
import {
  addSums,
  type CountedMark,
  countMarks,
  countPart,
  noSums,
  readSilent,
  readSuspendedPage,
  type SilentRow,
  type SuspendedRow,
} from './fleet-scan-statements.ts'
import { isAwaited, mayWork } from './fleet-view.ts'
import { readSuspensionStates, type SuspensionStates } from './instances.ts'
import { countInstances, countTeam } from './queries.ts'

/** All callers within this time share one reading. */
const keptMs = 2_000
/** A caller gets the last reading while the next one is under way, up to this age. */
const staleMs = 10_000
/** Of a large fleet, readings take at most this share of the time. */
const maxShare = 0.1
/** Suspended instances read in one turn of the scan lane. */
const suspendedPage = 2_500
/** Maximum number of filters whose answers are kept. */
const maxKept = 32
/** Agents whose last heartbeats are within this time are assumed to have stopped for the same reason. */
const togetherMs = 30_000
const namedSilent = 3

interface Reading {
  at: string
  digest: string
  state: FleetState
}

/** A suspended agent and how far its suspension is proven. */
export type SuspendedAgent = SuspendedRow & { state: SuspensionState; since: string }

interface Parts {
  suspensionStates: SuspensionStates
  enforcement: { points: readonly Point[] }
}

/** Reads suspended agents that match, a page at a time. */
export async function* readSuspendedAgents(
  { database, suspensionStates }: Pick<Deps, 'database'> & Pick<Parts, 'suspensionStates'>,
  where: Parameters<typeof readSuspendedPage>[1],
  lane: string,
): AsyncGenerator<SuspendedAgent[]> {
  for (let after = ''; ; ) {
    const page = await database.scan(lane, async (db) => {
      const rows = await readSuspendedPage(db, where, after, suspendedPage)
      const states = await readSuspensionStates(db, rows, suspensionStates)
      return rows.map((row) => ({ ...row, ...states.get(row.id)! }))
    })
    yield page
    if (page.length < suspendedPage) return
    after = page.at(-1)!.id
  }
}

/** Groups silent agents by heartbeats that ended together, newest group first. */
function silentGroups(rows: readonly (SilentRow & { part: number })[]): FleetState['silent'] {
  const sorted = rows.toSorted(
    (one, other) => one.last_heartbeat_at - other.last_heartbeat_at || (one.id < other.id ? -1 : 1),
  )
  const spans = new Set<string>()
  const groups: { agents: number; since: number; newest: number; ids: string[] }[] = []
  for (const { id, last_heartbeat_at: at, agents, newest, part } of sorted) {
    let group = groups.at(-1)
    if (!group || at - group.newest >= togetherMs) {
      group = { agents: 0, since: at, newest: at, ids: [] }
      groups.push(group)
    }
    // Rows of the same ten seconds of a part all have the number of agents.
    const span = `${part} ${newest}`
    if (!spans.has(span)) group.agents += agents
    spans.add(span)
    group.newest = Math.max(group.newest, newest)
    if (group.ids.length < namedSilent) group.ids.push(id)
  }
  return groups
    .reverse()
    .slice(0, limits.fleetSilent)
    .map(({ agents, since, ids }) => ({ agents, since: isoTime(since), ids }))
}

function waitingOf(agents: readonly SuspendedAgent[]): FleetState['waiting'] {
  return [...Map.groupBy(agents, ({ state }) => state)].map(([state, group]) => {
    const sinceOf = ({ since, control_changed_at: at }: SuspendedAgent) =>
      state === 'violated' || at === null ? since : isoTime(at)
    const first = group
      .slice(0, limits.fleetNamed)
      .map((agent) => ({ id: agent.id, since: sinceOf(agent), fail_mode: agent.fail_mode }))
    const since = group.map(sinceOf).reduce((one, other) => (other < one ? other : one))
    return { state: state as FleetState['waiting'][number]['state'], agents: group.length, since, first }
  })
}

/** The place of the mark that has this id. */
function placeOf(marks: readonly CountedMark[], id: string): number {
  let [low, high] = [0, marks.length - 1]
  while (low < high) {
    const middle = (low + high) >> 1
    if (marks[middle]!.last < id) low = middle + 1
    else high = middle
  }
  return low
}

function viewMarks(counted: readonly CountedMark[], suspended: readonly SuspendedAgent[]): FleetMark[] {
  const marks = counted.map(
    ({ first, last, agents, offline, suspended }): FleetMark => ({
      from: first,
      ...(agents > 1 ? { to: last } : {}),
      agents,
      ...(offline > 0 ? { offline } : {}),
      ...(suspended > 0 ? { suspended } : {}),
    }),
  )
  for (const { id, state } of suspended) {
    const mark = marks[placeOf(counted, id)]
    if (!mark) continue
    if (state === 'violated') mark.violated = (mark.violated ?? 0) + 1
    else if (isAwaited(state)) mark.unconfirmed = (mark.unconfirmed ?? 0) + 1
  }
  return marks
}

/** Counts of the fleet and what of it needs attention, read once for all callers of a team with the same filter. */
export class FleetSummaries {
  readonly #deps: Pick<Deps, 'database' | 'clock'>
  readonly #parts: Parts & { fleetParts: FleetParts }
  readonly #kept: SharedRuns<Reading>

  constructor(deps: Pick<Deps, 'database' | 'clock' | 'bus'>, parts: Parts & { fleetParts: FleetParts }) {
    this.#deps = deps
    this.#parts = parts
    this.#kept = new SharedRuns(maxKept, { clock: deps.clock, keptMs, staleMs, maxShare })
    // A kill or resume changes the status of an instance.
    deps.bus.onControl(() => this.forget())
  }

  /** `known`: digest of the state that the caller has. */
  async read(
    filter: FleetFilter,
    { team, caller, known }: { team: Team; caller: string; known: string | undefined },
  ): Promise<FleetSummary> {
    const make = () => this.#make(filter, team, laneOf(filter, caller))
    const { at, digest, state } = await this.#kept.get(filterKey(filter, team), make)
    return { at, digest, ...(digest === known ? {} : { state }) }
  }

  /** No later caller gets what was read until now. */
  forget(): void {
    this.#kept.forget()
  }

  async #make(filter: FleetFilter, team: Team, lane: string): Promise<Reading> {
    const { clock } = this.#deps
    const reading = { team, now: clock.now(), points: this.#parts.enforcement.points }
    const where = matchesFilter(filter, reading)
    const isFiltered = isFilter(filter)
    const marks = isFiltered ? [] : await this.#countMarks(where, reading, lane)
    const silent: (SilentRow & { part: number })[] = []
    const sums = noSums()
    for (const mark of marks) addSums(sums, mark)
    const parts = isFiltered || sums.silent > 0 ? await this.#parts.fleetParts.read() : []
    for (const [index, part] of parts.entries()) {
      if (isFiltered) addSums(sums, await this.#scan(lane, (db) => countPart(db, where, part, reading)))
      else {
        const rows = await this.#scan(lane, (db) => readSilent(db, where, part, reading.now))
        silent.push(...rows.map((row) => ({ ...row, part: index })))
      }
    }
    const suspended: SuspendedAgent[] = []
    if (sums.suspended > 0) {
      for await (const page of readSuspendedAgents({ ...this.#deps, ...this.#parts }, where, lane))
        suspended.push(...page)
    }
    const states = Object.fromEntries(stateNames.map((state) => [state, 0])) as FleetCounts['states']
    for (const { state } of suspended) states[state] += 1
    const { agents, ...others } = sums
    const state: FleetState = {
      // A suspension may have come between the readings.
      counts: { all: agents, ...others, states },
      marks: viewMarks(marks, suspended),
      waiting: waitingOf(suspended.filter((agent) => mayWork(agent.state))),
      silent: silentGroups(silent),
    }
    const digest = createHash('sha256').update(JSON.stringify(state)).digest('base64url').slice(0, 16)
    return { at: isoTime(reading.now), digest, state }
  }

  #scan<Result>(lane: string, read: (db: Db) => Promise<Result>): Promise<Result> {
    return this.#deps.database.scan(lane, read)
  }

  async #countMarks(
    where: ReturnType<typeof matchesFilter>,
    reading: FleetReading,
    lane: string,
  ): Promise<CountedMark[]> {
    const { db } = this.#deps.database
    const total = reading.team ? await countTeam(db, reading.team) : await countInstances(db)
    const size = Math.max(1, Math.ceil(total / limits.fleetMarks))
    const limit = size * Math.max(1, Math.floor(partSize / size))
    const marks: CountedMark[] = []
    for (;;) {
      const after = marks.at(-1)?.last ?? ''
      const counted = await this.#scan(lane, (scanned) => countMarks(scanned, where, { after, limit, size }, reading))
      marks.push(...counted)
      if (counted.reduce((sum, { agents }) => sum + agents, 0) < limit) return marks
    }
  }
}
