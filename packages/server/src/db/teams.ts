import { type RawBuilder, sql } from 'kysely'
import type { Db } from './database.ts'

/** Tags of operators to one of which the agents belong that a caller sees and reaches; undefined = all agents. */
export type Team = readonly string[] | undefined

/** The ids of the team's agents, as a subquery. */
const teamAgents = (team: readonly string[]) =>
  sql`(select instance_id from operator_tags where tag in (${sql.join(team)}))`

/** Condition that the column has the id of an agent of the team; false where it is null. Without a team always true. */
export const isOfTeam = (column: string, team: Team): RawBuilder<boolean> =>
  team ? sql<boolean>`${sql.ref(column)} in ${teamAgents(team)}` : sql<boolean>`1 = 1`

/**
 * Condition that the column has a team, stored as a JSON array, all of whose tags are of this one; false where it is null.
 * Without a team always true. A tag has no quotation mark, so one is left where a tag is.
 */
export const isWithinTeam = (column: string, team: Team): RawBuilder<boolean> => {
  if (!team) return sql<boolean>`1 = 1`
  const others = team.reduce<RawBuilder<unknown>>(
    (rest, tag) => sql`replace(${rest}, ${`"${tag}"`}, '')`,
    sql`${sql.ref(column)}`,
  )
  return sql<boolean>`${others} not like '%"%'`
}

/** How a team is stored. */
export const teamText = (team: Team): string | null => (team ? JSON.stringify(team) : null)

/** The team as stored, for readers. */
export const readTeamText = (stored: string | null): string[] | null => (stored === null ? null : JSON.parse(stored))

/** Returns the ids of the team's agents, in order, at most `limit`. */
export async function readTeamAgents(db: Db, team: readonly string[], limit: number): Promise<string[]> {
  const rows = await db
    .selectFrom('operator_tags')
    .select('instance_id')
    .distinct()
    .where('tag', 'in', team)
    .orderBy('instance_id')
    .limit(limit)
    .execute()
  return rows.map(({ instance_id }) => instance_id)
}

/** Returns those of the ids whose agents are of the team. */
export async function readTeam(db: Db, team: readonly string[], ids: readonly string[]): Promise<Set<string>> {
  if (ids.length === 0) return new Set()
  const rows = await db
    .selectFrom('operator_tags')
    .select('instance_id')
    .distinct()
    .where('instance_id', 'in', ids)
    .where('tag', 'in', team)
    .execute()
  return new Set(rows.map(({ instance_id }) => instance_id))
}
