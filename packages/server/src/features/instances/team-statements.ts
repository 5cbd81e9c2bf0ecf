import { type RawBuilder, sql } from 'kysely'
import type { Team } from '../../db/teams.ts'

/**
 * Condition that the column has a team, stored as a JSON array, all of whose tags are of this one; false where it is null.
 * A tag has no quotation mark, so one is left where a tag is.
 */
export const isWithinTeam = (column: string, team: readonly string[]): RawBuilder<boolean> => {
  const others = team.reduce<RawBuilder<unknown>>(
    (rest, tag) => sql`replace(${rest}, ${`"${tag}"`}, '')`,
    sql`${sql.ref(column)}`,
  )
  return sql<boolean>`${others} not like '%"%'`
}

/** How a team is stored. */
export const teamText = (team: Team): string | null => (team ? JSON.stringify(team) : null)
