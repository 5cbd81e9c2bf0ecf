import { offlineAfterMs } from '@wardline/contract'
import { type RawBuilder, sql } from 'kysely'
import type { Database, Db, Statement, Trx } from '../../db/database.ts'

const idRows = ({ dialect }: Pick<Database, 'dialect'>, ids: readonly string[]) =>
  dialect.rowsFromJson(JSON.stringify(ids.map((id) => [id])), { id: 'text' })

/** An answer to a drill: instance id, nonce, time of arrival. */
export type AnswerCells = [string, string, number]
export const answerColumns = { instance_id: 'text', nonce: 'text', at: 'bigint' } as const

/** Records that agents proved to be stoppable, for rows of `batch` that meet the condition. */
export function provenStatement(
  { db, dialect }: Database,
  answers: readonly AnswerCells[],
  isAnswered: RawBuilder<boolean>,
): Statement {
  const rows = dialect.rowsFromJson(JSON.stringify(answers), answerColumns)
  return sql`update instances set last_proven_at = batch.at, drill_overdue_at = null from ${rows} as batch
    where instances.id = batch.instance_id and coalesce(last_proven_at, 0) < batch.at and ${isAnswered}`.compile(db)
}

/** What a supervisor answers to a drill: instance id, nonce, time of arrival, processes that it would and could not hold. */
export type SupervisorCells = [string, string, number, number, number]
export const supervisorColumns = { ...answerColumns, held: 'bigint', unheld: 'bigint' } as const

/** Records which supervisors would hold every process they know, for rows of `batch` that meet the condition. */
export function supervisorProvenStatement(
  { db, dialect }: Database,
  answers: readonly SupervisorCells[],
  isAnswered: RawBuilder<boolean>,
): Statement {
  const rows = dialect.rowsFromJson(JSON.stringify(answers), supervisorColumns)
  return sql`update instances set supervisor_proven_at = batch.at from ${rows} as batch
    where instances.id = batch.instance_id and batch.held > 0 and batch.unheld = 0 and ${isAnswered}`.compile(db)
}

/** Whether the agent of a row of drill_asks has a supervisor that was heard since an instant. */
export const isSupervised = (since: number) => sql<boolean>`exists (select 1 from instances
  where instances.id = drill_asks.instance_id and instances.supervised_at >= ${since})`

/** Whether the agent of a row of drill_asks has called a model through a gateway since an instant. */
export const isCaller = (since: number) => sql<boolean>`exists (select 1 from instances
  where instances.id = drill_asks.instance_id and instances.model_called_at >= ${since})`

/** Reads agents after an id that have called a model through a gateway since an instant. */
export async function readCallers(
  db: Db,
  { since, after }: { since: number; after: string },
  limit: number,
): Promise<string[]> {
  const rows = await db
    .selectFrom('instances')
    .select('id')
    .where('model_called_at', '>=', since)
    .where('id', '>', after)
    .orderBy('id')
    .limit(limit)
    .execute()
  return rows.map(({ id }) => id)
}

/** Records that a gateway answered a drill for these agents. */
export const modelProvenStatement = (database: Database, ids: readonly string[], now: number): Statement =>
  sql`update instances set model_proven_at = ${now}
    where id in (select id from ${idRows(database, ids)} as batch)`.compile(database.db)

/** Records that clients of these instances understand drills, unless that is recorded already. */
export async function noteDrillable(database: Database, ids: readonly string[], now: number): Promise<void> {
  await sql`update instances set drills_since = ${now}
    where drills_since is null and id in (select id from ${idRows(database, ids)} as batch)`.execute(database.db)
}

/** Reads the last heartbeats of these instances; unknown ids are missing in the result. */
export async function readHeartbeats(database: Database, ids: readonly string[]): Promise<Map<string, number>> {
  const { rows } = await sql<{ id: string; at: number }>`select id, last_heartbeat_at as at from instances
    where id in (select id from ${idRows(database, ids)} as batch)`.execute(database.db)
  return new Map(rows.map(({ id, at }) => [id, at]))
}

interface OverdueBounds {
  now: number
  /** Overdue if the last proof is older than this time. */
  provenBefore: number
}

const isOverdue = ({ now, provenBefore }: OverdueBounds) => sql<boolean>`(drills_since < ${provenBefore}
  and coalesce(last_proven_at, 0) < ${provenBefore} and last_heartbeat_at >= ${now - offlineAfterMs})`

/** Clears the overdue mark of instances that answered or went offline. After a return the period starts again. */
export async function endOverdue(db: Db, bounds: OverdueBounds): Promise<void> {
  await sql`update instances set drill_overdue_at = null
    where drill_overdue_at is not null and not ${isOverdue(bounds)}`.execute(db)
}

/** Marks up to `limit` online instances as overdue; resolves with their number. */
export async function beginOverdue(db: Db, bounds: OverdueBounds, limit: number): Promise<number> {
  const { rows } = await sql`update instances set drill_overdue_at = ${bounds.now}
    where drill_overdue_at is null and id in (select id from instances
      where drill_overdue_at is null and ${isOverdue(bounds)} limit ${limit}) returning id`.execute(db)
  return rows.length
}

export interface OverdueRow {
  id: string
  last_proven_at: number | null
  drills_since: number
}

/**
 * Marks instances as warned about that have been overdue since `waitingBefore` and were not warned about since
 * `warnedBefore`; resolves with those that this call marked.
 */
export async function markWarned(
  trx: Trx,
  bounds: OverdueBounds & { waitingBefore: number; warnedBefore: number },
  limit: number,
): Promise<OverdueRow[]> {
  const isDue = sql`drill_overdue_at <= ${bounds.waitingBefore}
    and coalesce(drill_warned_at, 0) <= ${bounds.warnedBefore} and ${isOverdue(bounds)}`
  const { rows } = await sql<OverdueRow>`update instances set drill_warned_at = ${bounds.now}
    where id in (select id from instances where ${isDue} order by id limit ${limit}) and ${isDue}
    returning id, last_proven_at, drills_since`.execute(trx)
  return rows
}

/** Records which instances were listed by name in the warning. */
export async function markNamed({ dialect }: Database, trx: Trx, ids: readonly string[], now: number): Promise<void> {
  await sql`update instances set drill_named_at = ${now}
    where id in (select id from ${idRows({ dialect }, ids)} as batch)`.execute(trx)
}

/**
 * Ends the warning for instances that have passed a drill since: either those listed by name or the others. Resolves with
 * those that this call changed.
 */
export async function takeAnswered(trx: Trx, named: boolean, limit: number): Promise<{ id: string; at: number }[]> {
  const isAnswered = sql`drill_warned_at is not null and last_proven_at >= drill_warned_at
    and drill_named_at is ${sql.raw(named ? 'not null' : 'null')}`
  const { rows } = await sql<{
    id: string
    at: number
  }>`update instances set drill_warned_at = null, drill_named_at = null
    where id in (select id from instances where ${isAnswered} order by id limit ${limit}) and ${isAnswered}
    returning id, last_proven_at as at`.execute(trx)
  return rows
}

/** Whether some instances were warned about without their names and have not answered since. */
export async function hasUnnamed(trx: Trx): Promise<boolean> {
  const { rows } = await sql`select 1 from instances
    where drill_warned_at is not null and drill_named_at is null limit 1`.execute(trx)
  return rows.length > 0
}
