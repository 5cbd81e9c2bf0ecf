import { type RawBuilder, sql } from 'kysely'
import { hourMs } from '../../clock.ts'
import { counterValue, readCounters, setCounter } from '../../db/counters.ts'
import type { Db } from '../../db/database.ts'
import { deleteInPortions } from '../../db/portions.ts'
import type { Schema } from '../../db/schema.ts'
import { isOfTeam, type Team } from '../../db/teams.ts'

type Counted = Schema['problem_counts']

const counted = counterValue('counted_seq')

/** Counts events whose seq meets the condition, those without an instance under the empty name. */
const countsOf = (condition: RawBuilder<unknown>) => sql`
  select by_service, severity, created_at - created_at % ${sql.lit(hourMs)} as hour, event_type,
    coalesce(instance_id, '') as instance_id, count(*) as count, min(created_at) as first_at,
    max(created_at) as last_at, max(seq) as last_seq
  from events where severity in ('critical', 'breach') and severity <> 'info' and ${condition}
  group by 1, 2, 3, 4, 5`

/** Counts the critical events and breaches up to `upTo`, each once: for the transaction that holds the lock of the index. */
export const countProblems = (upTo: RawBuilder<number>) => [
  sql`insert into problem_counts
      (by_service, severity, hour, event_type, instance_id, count, first_at, last_at, last_seq)
    select * from (${countsOf(sql`seq > ${counted} and seq <= ${upTo}`)}) as batch where true
    on conflict (by_service, severity, hour, event_type, instance_id) do update set
      count = problem_counts.count + excluded.count, last_at = excluded.last_at, last_seq = excluded.last_seq`,
  // Only forward: a call whose place was moved by another process holds no lock, and may be late.
  sql`${setCounter('counted_seq', upTo)} and value < ${upTo}`,
]

/** What one instance reported of one type. `instance_id` is empty for reports without an instance. */
export type ProblemCount = Pick<
  Counted,
  'by_service' | 'severity' | 'event_type' | 'instance_id' | 'count' | 'first_at' | 'last_at' | 'last_seq'
>

/** Rows of hours read for one severity: 10,000 agents that report all day. Beyond it the oldest hours are left out. */
const maxHourRows = 250_000
/** Newest events looked through for problems that are not counted yet: more than a busy service leaves. */
const maxUncounted = 100_000

const newest = counterValue('event_seq')
const uncounted = sql`seq > ${counted} and seq > ${newest} - ${sql.lit(maxUncounted)}`

/** Reads the `limit` latest problems of one severity, from the service or from callers, and whether there are more. */
export async function readProblems(
  db: Db,
  {
    by_service,
    severity,
    from,
    team,
    limit,
  }: Pick<Counted, 'by_service' | 'severity'> & { from: number; team: Team; limit: number },
): Promise<{ rows: ProblemCount[]; isComplete: boolean }> {
  const hours = db
    .selectFrom('problem_counts')
    .select(['event_type', 'instance_id', 'count', 'first_at', 'last_at', 'last_seq'])
    .where('by_service', '=', by_service)
    .where('severity', '=', severity)
    .where('hour', '>=', from)
    .where(isOfTeam('instance_id', team))
    .orderBy('hour', 'desc')
    .limit(maxHourRows)
  // One statement, so that no event is counted twice, or not at all, while it is being counted.
  const { rows } = await sql<Omit<ProblemCount, 'by_service' | 'severity'> & { hours: number }>`
    select event_type, instance_id, sum(count) as count, min(first_at) as first_at, max(last_at) as last_at,
      max(last_seq) as last_seq, count(*) as hours
    from (select * from (${hours}) as stored
      union all select event_type, instance_id, count, first_at, last_at, last_seq
        from (${countsOf(sql`severity = ${severity} and by_service = ${by_service} and ${uncounted} and ${isOfTeam('instance_id', team)}`)}) as latest) as hours
    group by event_type, instance_id order by max(last_seq) desc limit ${limit + 1}`.execute(db)
  const read = rows.reduce((sum, row) => sum + row.hours, 0)
  const { event_seq: last, counted_seq: upTo } = await readCounters(db)
  return {
    rows: rows.slice(0, limit).map(({ hours: _hours, ...row }) => ({ ...row, by_service, severity })),
    isComplete: rows.length <= limit && read < maxHourRows && last - upTo <= maxUncounted,
  }
}

/** Reads the reports of these events that are still stored. */
export function readReports(db: Db, seqs: readonly number[]) {
  if (seqs.length === 0) return Promise.resolve([])
  return db
    .selectFrom('events')
    .select(['seq', 'source', 'description'])
    .where('seq', 'in', [...seqs])
    .execute()
}

/** Deletes the hours before `hour`. */
export const deleteProblemsBefore = (db: Db, hour: number, stopping?: AbortSignal): Promise<void> =>
  deleteInPortions(
    db,
    'problem_counts',
    {
      key: ['by_service', 'severity', 'hour', 'event_type', 'instance_id'],
      where: sql`by_service in (0, 1) and severity in ('critical', 'breach') and hour < ${hour}`,
    },
    stopping,
  )
