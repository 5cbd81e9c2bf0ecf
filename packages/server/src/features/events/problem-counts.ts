import { dayMs, hourMs, startOf } from '../../clock.ts'
import type { Db } from '../../db/database.ts'
import type { Team } from '../../db/teams.ts'
import { type ProblemCount, readProblems, readReports } from './problem-queries.ts'

export type { ProblemCount } from './problem-queries.ts'

/**
 * Problems read for each severity, of the service and of callers separately, so that no caller displaces what the service
 * detected by inventing types and agents. Grouping so many takes some 50 milliseconds of the process.
 */
const maxProblems = 20_000

/**
 * Counts the critical events and breaches of 24 hours, to the hour, by type and instance. `isComplete`: whether these are
 * all; else the latest ones.
 */
export async function readProblemCounts(
  db: Db,
  now: number,
  team: Team,
): Promise<{ problems: ProblemCount[]; isComplete: boolean }> {
  const from = startOf(now - dayMs, hourMs)
  const parts = await Promise.all(
    (['breach', 'critical'] as const).flatMap((severity) =>
      ([1, 0] as const).map((by_service) => readProblems(db, { by_service, severity, from, team, limit: maxProblems })),
    ),
  )
  return {
    problems: parts.flatMap(({ rows }) => rows.filter(({ last_at }) => last_at > now - dayMs)),
    isComplete: parts.every((part) => part.isComplete),
  }
}

/** Returns source and description of these events by seq, without those that were deleted already. */
export async function reportsOf(db: Db, seqs: readonly number[]) {
  const rows = await readReports(db, seqs)
  return new Map(rows.map(({ seq, ...report }) => [seq, report]))
}
