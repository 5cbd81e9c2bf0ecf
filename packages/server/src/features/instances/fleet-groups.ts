import { byAllTags, type FleetGroups, type FleetTags, limits } from '@wardline/contract'
import type { Point } from '../../config/enforcement-points.ts'
import type { Team } from '../../db/teams.ts'
import type { Deps } from '../../deps.ts'
import { SharedRuns } from '../../shared-run.ts'
import { type FleetFilter, filterKey, laneOf, matchesFilter } from './fleet-filter-statements.ts'
import { groupName } from './fleet-group-statements.ts'
import type { FleetParts } from './fleet-parts.ts'
import { countTagSets, type TagSet } from './fleet-scan-statements.ts'
import { readSuspendedAgents } from './fleet-summary.ts'
import { mayWork } from './fleet-view.ts'
import type { SuspensionStates } from './instances.ts'
import { allTags } from './tags.ts'

const keptMs = 5_000
const maxShare = 0.1
/** Maximum number of filters whose answers are kept. */
const maxKept = 16
/** Above it, tags tell agents apart and are no groups: further sets count as one without tags. */
const maxSets = 20_000

interface TagParts {
  fleetParts: FleetParts
  suspensionStates: SuspensionStates
  enforcement: { points: readonly Point[] }
}

interface Counted {
  sets: TagSet[]
  /** Suspended agents that may still be working, by their tags as JSON. */
  unconfirmed: Map<string, number>
}

/** Counts of agents by their tags, read once for all callers of a team with the same filter. */
export class FleetTagCounts {
  readonly #deps: Pick<Deps, 'database' | 'clock'>
  readonly #parts: TagParts
  readonly #kept: SharedRuns<Counted>

  constructor(deps: Pick<Deps, 'database' | 'clock' | 'bus'>, parts: TagParts) {
    this.#deps = deps
    this.#parts = parts
    this.#kept = new SharedRuns(maxKept, { clock: deps.clock, keptMs, maxShare })
    deps.bus.onControl(() => this.forget())
  }

  /** No later caller gets what was read until now. */
  forget(): void {
    this.#kept.forget()
  }

  async groups(
    by: string,
    filter: FleetFilter,
    { team, caller }: { team: Team; caller: string },
  ): Promise<FleetGroups> {
    const { sets, unconfirmed } = await this.#read(filter, team, caller)
    const groups = new Map<string, FleetGroups['groups'][number]>()
    const groupOf = (tags: readonly string[]) => {
      const name = groupName(tags, by)
      const group = groups.get(name) ?? { name, all: 0, suspended: 0, unconfirmed: 0, offline: 0 }
      groups.set(name, group)
      return group
    }
    for (const { tags, agents, suspended, offline } of sets) {
      const group = groupOf(tags)
      group.all += agents
      group.suspended += suspended
      group.offline += offline
    }
    for (const [tags, count] of unconfirmed) groupOf(JSON.parse(tags)).unconfirmed += count
    const sorted = [...groups.values()].sort(
      (one, other) => Number(one.name === '') - Number(other.name === '') || (one.name < other.name ? -1 : 1),
    )
    const listed = sorted.slice(0, limits.fleetGroups)
    return { groups: listed, omitted: sorted.length - listed.length }
  }

  async tags({ team, caller }: { team: Team; caller: string }): Promise<FleetTags> {
    const { sets } = await this.#read({}, team, caller)
    const tags = new Map<string, FleetTags['tags'][number]>()
    const groups = new Set<string>()
    for (const set of sets) {
      for (const tag of set.tags) {
        const counts = tags.get(tag) ?? { tag, running: 0, suspended: 0, resumable: 0 }
        tags.set(tag, counts)
        counts.running += set.agents - set.suspended
        counts.suspended += set.suspended
        if (set.operatorTags.includes(tag)) counts.resumable += set.suspended
        if (tag.includes(':')) groups.add(tag.slice(0, tag.indexOf(':')))
      }
    }
    groups.delete(byAllTags)
    const all = ({ running, suspended }: FleetTags['tags'][number]) => running + suspended
    const sorted = [...tags.values()].sort((one, other) => all(other) - all(one) || (one.tag < other.tag ? -1 : 1))
    return {
      tags: sorted.slice(0, limits.fleetTags),
      groups: [byAllTags, ...[...groups].sort().slice(0, limits.fleetTags)],
    }
  }

  #read(filter: FleetFilter, team: Team, caller: string): Promise<Counted> {
    return this.#kept.get(filterKey(filter, team), () => this.#make(filter, team, laneOf(filter, caller)))
  }

  async #make(filter: FleetFilter, team: Team, lane: string): Promise<Counted> {
    const { database, clock } = this.#deps
    const now = clock.now()
    const where = matchesFilter(filter, { team, now, points: this.#parts.enforcement.points })
    const sets = new Map<string, TagSet>()
    for (const part of await this.#parts.fleetParts.read()) {
      for (const set of await database.scan(lane, (db) => countTagSets(db, where, part, now))) {
        const isRoom = sets.size < maxSets
        const key = JSON.stringify([set.tags, set.operatorTags])
        const known = sets.get(key) ?? (isRoom ? undefined : sets.get(''))
        if (known) {
          known.agents += set.agents
          known.suspended += set.suspended
          known.offline += set.offline
        } else if (isRoom) sets.set(key, set)
        else sets.set('', { ...set, tags: [], operatorTags: [] })
      }
    }
    const unconfirmed = new Map<string, number>()
    if ([...sets.values()].some(({ suspended }) => suspended > 0)) {
      for await (const page of readSuspendedAgents({ database, ...this.#parts }, where, lane)) {
        for (const agent of page) {
          const tags = JSON.stringify(allTags(agent))
          if (mayWork(agent.state)) unconfirmed.set(tags, (unconfirmed.get(tags) ?? 0) + 1)
        }
      }
    }
    return { sets: [...sets.values()], unconfirmed }
  }
}
