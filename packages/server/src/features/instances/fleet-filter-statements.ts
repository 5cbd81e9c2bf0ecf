import { type FleetStatusFilter, limits, offlineAfterMs, type Witness } from '@wardline/contract'
import { type RawBuilder, sql } from 'kysely'
import type { Point } from '../../config/enforcement-points.ts'
import { isOfTeam, type Team } from '../../db/teams.ts'
import { AppError } from '../../errors.ts'
import { modelForMs } from './enforcing-levers.ts'
import { heardSince } from './heard-by.ts'
import { isHeardBy } from './heard-by-statements.ts'
import { runsServer } from './tool-server-statements.ts'

export type Condition = RawBuilder<boolean>

/** Which instances a dashboard lists or counts. */
export interface FleetFilter {
  q?: string | undefined
  witness?: Witness | undefined
  server?: string | undefined
  parent?: string | undefined
}

export const isFilter = ({ q, witness, server, parent }: FleetFilter): boolean =>
  [q, witness, server, parent].some(Boolean)

/** Name of what callers of a team read with a filter. */
export const filterKey = ({ q, witness, server, parent }: FleetFilter, team: Team): string =>
  JSON.stringify([q, witness, server, parent, team])

/**
 * Caller of the scan lane. What all read the same is read for none of them; a filter delays only who asked for it, since
 * texts can be varied without end.
 */
export const laneOf = (filter: FleetFilter, caller: string): string => (isFilter(filter) ? caller : 'fleet')

/** What the filter and the counts depend on, besides the filter. */
export interface FleetReading {
  team: Team
  now: number
  points: readonly Point[]
}

const all = sql<boolean>`1 = 1`
const none = sql<boolean>`1 = 0`
export const and = (conditions: readonly Condition[]): Condition =>
  conditions.length === 0 ? all : sql<boolean>`(${sql.join(conditions, sql` and `)})`
const or = (conditions: readonly Condition[]): Condition =>
  conditions.length === 0 ? none : sql<boolean>`(${sql.join(conditions, sql` or `)})`

const escaped = (text: string) => text.replace(/[\\%_]/g, '\\$&')

const searched = [
  sql`id`,
  sql`lower(name)`,
  sql`lower(suspension_reason)`,
  sql`lower(version)`,
  sql`agent_tags`,
  sql`operator_tags`,
]
const hasWord = (word: string): Condition => {
  const pattern = `%${escaped(word)}%`
  // Null where the column is null, so it counts as false only at the end.
  return sql<boolean>`coalesce(${sql.join(
    searched.map((text) => sql`coalesce(${text} like ${pattern} escape '\\', false)`),
    sql` or `,
  )}, false)`
}

function wordsOf(q: string): string[] {
  const words = [...new Set(q.toLowerCase().split(/\s+/).filter(Boolean))]
  if (words.length > limits.fleetFilterWords)
    throw new AppError('invalid', `q may have at most ${limits.fleetFilterWords} words.`)
  return words
}

/** Condition of one filter. Throws AppError `invalid` for too many words. */
export function matchesFilter(
  { q = '', witness, server, parent }: FleetFilter,
  { team, now }: FleetReading,
): Condition {
  return and([
    ...(team ? [isOfTeam('id', team)] : []),
    ...wordsOf(q).map(hasWord),
    ...(witness ? [isHeardBy(witness, heardSince(now))] : []),
    ...(server === undefined ? [] : [runsServer(server)]),
    ...(parent === undefined ? [] : [sql<boolean>`parent_id = ${parent}`]),
  ])
}

// Literals, since the planner does not match a parameter to the partial index.
export const isSuspended = sql<boolean>`suspended = 1`
const isNotSuspended = sql<boolean>`suspended = 0`
const isFresh = (now: number) => sql<boolean>`last_heartbeat_at >= ${now - offlineAfterMs}`
export const isActive = (now: number) => and([isNotSuspended, isFresh(now)])
export const isOffline = (now: number) => sql<boolean>`(suspended = 0 and last_heartbeat_at < ${now - offlineAfterMs})`
/** The same instances as `isSilent`, of those that are offline. */
export const isSilentNow = (now: number) =>
  sql<boolean>`(${isOffline(now)} and liveness = 'offline' and coalesce(left_at, -1) < last_heartbeat_at)`
export const isUnresumed = sql<boolean>`(suspended = 0 and control_version > 0
  and coalesce(applied_version, -1) <> control_version)`

/** Whether the JSON of the agent's or of operators' tags is like the pattern; never null. */
const hasTags = (pattern: string): Condition =>
  sql<boolean>`(coalesce(agent_tags, '') like ${pattern} escape '\\' or coalesce(operator_tags, '') like ${pattern} escape '\\')`
export const hasTag = (tag: string): Condition => hasTags(`%"${escaped(tag)}"%`)
export const hasTagFrom = (prefix: string): Condition => hasTags(`%"${escaped(prefix)}_%`)
const hasId = (patterns: readonly string[]): Condition =>
  or(
    patterns.map((pattern) =>
      pattern.endsWith('*')
        ? sql<boolean>`id like ${`${escaped(pattern.slice(0, -1))}%`} escape '\\'`
        : sql<boolean>`id = ${pattern}`,
    ),
  )
/** Whether an enforcement point is called for the instance, as `pointsFor` finds. */
const isCalled = ({ tags, instances }: Point): Condition =>
  and([...(tags ? [or(tags.map(hasTag))] : []), ...(instances ? [hasId(instances)] : [])])

/** Whether nothing stops the instance without its cooperation: none of `enforcingLevers`. */
export const isOnlyAsked = ({ now, points }: FleetReading): Condition => {
  const called = points.filter(({ actions }) => actions.includes('suspend'))
  const levers = [
    sql<boolean>`supervised_at >= ${now - offlineAfterMs}`,
    sql<boolean>`model_called_at >= ${now - modelForMs}`,
    ...called.map(isCalled),
  ]
  return sql<boolean>`not coalesce(${sql.join(
    levers.map((lever) => sql`coalesce(${lever}, false)`),
    sql` or `,
  )}, false)`
}

/** Conditions of these ids, and of those from one on. */
export const namedIn = ({
  from,
  ids,
}: {
  from: string | undefined
  ids: readonly string[] | undefined
}): Condition[] => [
  ...(from === undefined ? [] : [sql<boolean>`id >= ${from}`]),
  ...(ids === undefined ? [] : [sql<boolean>`id in (${sql.join(ids)})`]),
]

/** Condition of a status filter; that of `unconfirmed` finds all suspended instances, whose states are read apart. */
export function hasStatus(status: FleetStatusFilter, reading: FleetReading): Condition {
  if (status === 'active') return isActive(reading.now)
  if (status === 'offline') return isOffline(reading.now)
  return status === 'asked' ? isOnlyAsked(reading) : isSuspended
}
