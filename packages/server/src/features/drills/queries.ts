import { type RawBuilder, sql } from 'kysely'
import type { Database, Db, Statement } from '../../db/database.ts'
import { deleteInPortions } from '../../db/portions.ts'
import type { Schema } from '../../db/schema.ts'
import { isWithinTeam, type Team } from '../../db/teams.ts'
import {
  type AnswerCells,
  answerColumns,
  isCaller,
  isSupervised,
  type SupervisorCells,
  supervisorColumns,
} from '../instances/drill-statements.ts'

export type DrillRow = Schema['drills']
export type NotAskedReason = NonNullable<Schema['drill_asks']['reason']>

/** Drill id of scheduled drills, which the service sends by itself. */
const scheduleId = 'schedule'

const idRows = ({ dialect }: Pick<Database, 'dialect'>, ids: readonly string[]) =>
  dialect.rowsFromJson(JSON.stringify(ids.map((id) => [id])), { id: 'text' })

// --- Drills of operators

export const drillStatement = (db: Db, row: Omit<DrillRow, 'ready_at' | 'completed_at' | 'report'>): Statement =>
  db.insertInto('drills').values(row).compile()

/** Stores the agents of a drill, for the processes that hold their streams. */
export function agentsStatement(database: Database, drillId: string, ids: readonly string[]): Statement {
  return sql`insert into drill_asks (drill_id, instance_id)
    select cast(${drillId} as text), id from ${idRows(database, ids)} as batch`.compile(database.db)
}

export async function markReady(db: Db, id: string, now: number): Promise<void> {
  await db.updateTable('drills').set({ ready_at: now }).where('id', '=', id).execute()
}

export function readRunning(db: Db): Promise<DrillRow[]> {
  return db.selectFrom('drills').selectAll().where('completed_at', 'is', null).orderBy('requested_at').execute()
}

export function readDrills(db: Db, limit: number, team: Team): Promise<DrillRow[]> {
  return db
    .selectFrom('drills')
    .selectAll()
    .where(isWithinTeam('team', team))
    .orderBy('requested_at', 'desc')
    .orderBy('id', 'desc')
    .limit(limit)
    .execute()
}

/** `team`: undefined also for one that an operator of another team started, or one of all agents. */
export function findDrill(db: Db, id: string, team: Team): Promise<DrillRow | undefined> {
  return db.selectFrom('drills').selectAll().where('id', '=', id).where(isWithinTeam('team', team)).executeTakeFirst()
}

/** Stores the report of a drill; false when another process was faster. */
export async function completeDrill(db: Db, id: string, report: string, now: number): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('drills')
    .set({ completed_at: now, report })
    .where('id', '=', id)
    .where('completed_at', 'is', null)
    .executeTakeFirstOrThrow()
  return numUpdatedRows === 1n
}

// --- Questions

/** Reads agents of a drill after an id that are neither sent the drill nor given up. */
export async function readUnasked(db: Db, drillId: string, after: string, limit: number): Promise<string[]> {
  const rows = await db
    .selectFrom('drill_asks')
    .select('instance_id')
    .where('drill_id', '=', drillId)
    .where('asked_at', 'is', null)
    .where('reason', 'is', null)
    .where('instance_id', '>', after)
    .orderBy('instance_id')
    .limit(limit)
    .execute()
  return rows.map(({ instance_id }) => instance_id)
}

/** Instance and nonce. */
export type AskCells = [string, string]
const askColumns = { instance_id: 'text', nonce: 'text' } as const

const askedIds = async (query: RawBuilder<{ instance_id: string }>, db: Db): Promise<Set<string>> =>
  new Set((await query.execute(db)).rows.map(({ instance_id }) => instance_id))

/** Claims agents of a drill; resolves with the instances to which this process must send it. */
export function takeAsks({ db, dialect }: Database, drillId: string, asks: readonly AskCells[], now: number) {
  const rows = dialect.rowsFromJson(JSON.stringify(asks), askColumns)
  return askedIds(
    sql`update drill_asks set nonce = batch.nonce, asked_at = ${now} from ${rows} as batch
      where drill_asks.drill_id = ${drillId} and drill_asks.instance_id = batch.instance_id
        and drill_asks.asked_at is null and drill_asks.reason is null
      returning drill_asks.instance_id`,
    db,
  )
}

/**
 * Claims instances for scheduled drills, unless any process sent one after `notSince`; resolves with those that this
 * process has to ask, and the drills in a row that only the agent answered, of those whose supervisor was heard since.
 */
export async function takeScheduled(
  { db, dialect }: Database,
  asks: readonly AskCells[],
  { now, notSince, supervisedSince }: { now: number; notSince: number; supervisedSince: number },
): Promise<Map<string, number>> {
  const batch = dialect.rowsFromJson(JSON.stringify(asks), askColumns)
  const isMissed = sql`drill_asks.answered_at is not null and drill_asks.supervisor_at is null
    and ${isSupervised(supervisedSince)}`
  const { rows } = await sql<{ instance_id: string; missed: number | null }>`
    insert into drill_asks (drill_id, instance_id, nonce, asked_at)
      select cast(${scheduleId} as text), instance_id, nonce, cast(${now} as bigint) from ${batch} as batch where true
      on conflict (drill_id, instance_id) do update
        set nonce = excluded.nonce, asked_at = excluded.asked_at, answered_at = null, supervisor_at = null,
          supervisor_missed = case when ${isMissed} then coalesce(drill_asks.supervisor_missed, 0) + 1
            when drill_asks.answered_at is null then drill_asks.supervisor_missed end
        where drill_asks.asked_at <= ${notSince} or drill_asks.asked_at > ${now}
      returning instance_id, supervisor_missed as missed`.execute(db)
  return new Map(rows.map(({ instance_id, missed }) => [instance_id, missed ?? 0]))
}

interface ScheduledAsk {
  asked_at: number | null
  answered_at: number | null
}

/** Reads the last scheduled drills of these instances. */
export async function readScheduled(database: Database, ids: readonly string[]): Promise<Map<string, ScheduledAsk>> {
  const { rows } = await sql<ScheduledAsk & { instance_id: string }>`
    select instance_id, asked_at, answered_at from drill_asks
    where drill_id = ${scheduleId} and instance_id in (select id from ${idRows(database, ids)} as batch)`.execute(
    database.db,
  )
  return new Map(rows.map((row) => [row.instance_id, row]))
}

/** Stores why agents cannot be sent the drill, unless they were in the meantime. */
export async function giveUpAsks(
  { db, dialect }: Database,
  drillId: string,
  reasons: readonly (readonly [string, NotAskedReason])[],
): Promise<void> {
  const rows = dialect.rowsFromJson(JSON.stringify(reasons), { instance_id: 'text', reason: 'text' })
  await sql`update drill_asks set reason = batch.reason from ${rows} as batch
    where drill_asks.drill_id = ${drillId} and drill_asks.instance_id = batch.instance_id
      and drill_asks.asked_at is null and drill_asks.reason is null`.execute(db)
}

/** Stores answers, each once and in time; returns instance and nonce of correct ones. */
export function answersStatement(
  { db, dialect }: Database,
  answers: readonly AnswerCells[],
  withinMs: number,
): Statement {
  const rows = dialect.rowsFromJson(JSON.stringify(answers), answerColumns)
  return sql`update drill_asks set answered_at = batch.at from ${rows} as batch
    where drill_asks.nonce = batch.nonce and drill_asks.instance_id = batch.instance_id
      and drill_asks.answered_at is null and drill_asks.asked_at >= batch.at - ${sql.lit(withinMs)}
    returning drill_asks.instance_id, drill_asks.nonce`.compile(db)
}

/** Whether the answer in this row of `batch` was taken just now. */
export const wasAnswered = sql<boolean>`exists (select 1 from drill_asks where drill_asks.nonce = batch.nonce
  and drill_asks.instance_id = batch.instance_id and drill_asks.answered_at = batch.at)`

/**
 * Stores what supervisors answer, each once and in time, also after the agent answered: both hear the drill over their
 * own streams. Returns instance and nonce of correct ones.
 */
export function supervisorAnswersStatement(
  { db, dialect }: Database,
  answers: readonly SupervisorCells[],
  withinMs: number,
): Statement {
  const rows = dialect.rowsFromJson(JSON.stringify(answers), supervisorColumns)
  return sql`update drill_asks set supervisor_at = batch.at, processes = batch.held, unreachable = batch.unheld
    from ${rows} as batch
    where drill_asks.nonce = batch.nonce and drill_asks.instance_id = batch.instance_id
      and drill_asks.supervisor_at is null and drill_asks.asked_at >= batch.at - ${sql.lit(withinMs)}
    returning drill_asks.instance_id, drill_asks.nonce`.compile(db)
}

/** Whether the answer of a supervisor in this row of `batch` was taken just now. */
export const wasSupervisorHeard = sql<boolean>`exists (select 1 from drill_asks where drill_asks.nonce = batch.nonce
  and drill_asks.instance_id = batch.instance_id and drill_asks.supervisor_at = batch.at)`

/** An agent and its open calls of models. */
export type ModelCells = [string, number]

/** Reads agents of a drill after an instance that have called a model through a gateway since an instant. */
export async function readCallersOf(
  db: Db,
  { drillId, since, after }: { drillId: string; since: number; after: string },
  limit: number,
): Promise<string[]> {
  const rows = await db
    .selectFrom('drill_asks')
    .select('instance_id')
    .where('drill_id', '=', drillId)
    .where('instance_id', '>', after)
    .where(isCaller(since))
    .orderBy('instance_id')
    .limit(limit)
    .execute()
  return rows.map(({ instance_id }) => instance_id)
}

/** Adds the answer of one of the gateways. */
export function modelAnswersStatement(
  { db, dialect }: Database,
  drillId: string,
  cells: readonly ModelCells[],
  now: number,
): Statement {
  const rows = dialect.rowsFromJson(JSON.stringify(cells), { instance_id: 'text', calls: 'bigint' })
  return sql`update drill_asks set model_at = ${now}, model_calls = coalesce(model_calls, 0) + batch.calls
    from ${rows} as batch
    where drill_asks.drill_id = ${drillId} and drill_asks.instance_id = batch.instance_id`.compile(db)
}

// --- Reports

export interface AskRow {
  instance_id: string
  asked_at: number | null
  answered_at: number | null
  processes: number | null
  unreachable: number | null
  model_at: number | null
  model_calls: number | null
  /** On SQLite 0 or 1. */
  is_supervised: boolean
  is_caller: boolean
  reason: NotAskedReason | null
}

interface HeardSince {
  supervised: number
  called: number
}

/** Reads the agents of a drill after an instance. `since`: when those with a supervisor or a gateway were last heard. */
export function readAsks(
  db: Db,
  { drillId, since, after }: { drillId: string; since: HeardSince; after: string },
  limit: number,
): Promise<AskRow[]> {
  return db
    .selectFrom('drill_asks')
    .select(['instance_id', 'asked_at', 'answered_at', 'processes', 'unreachable', 'model_at', 'model_calls', 'reason'])
    .select([isSupervised(since.supervised).as('is_supervised'), isCaller(since.called).as('is_caller')])
    .where('drill_id', '=', drillId)
    .where('instance_id', '>', after)
    .orderBy('instance_id')
    .limit(limit)
    .execute()
}

/**
 * Whether agents of a drill may still be sent it, or they or the supervisors that were heard since an instant may still
 * answer one sent after another.
 */
export async function isPending(
  db: Db,
  drillId: string,
  { askedSince, supervisedSince }: { askedSince: number; supervisedSince: number },
): Promise<boolean> {
  const pending = await db
    .selectFrom('drill_asks')
    .select('instance_id')
    .where('drill_id', '=', drillId)
    .where('reason', 'is', null)
    .where((e) =>
      e.or([e('answered_at', 'is', null), e('supervisor_at', 'is', null).and(isSupervised(supervisedSince))]),
    )
    .where((e) => e.or([e('asked_at', 'is', null), e('asked_at', '>', askedSince)]))
    .limit(1)
    .executeTakeFirst()
  return pending !== undefined
}

/** Whether gateways may still answer for agents of a drill: none did for one of them, or one did after an instant. */
export async function isModelPending(
  db: Db,
  drillId: string,
  { calledSince, answeredSince }: { calledSince: number; answeredSince: number },
): Promise<boolean> {
  const pending = await db
    .selectFrom('drill_asks')
    .select('instance_id')
    .where('drill_id', '=', drillId)
    .where(isCaller(calledSince))
    .where((e) => e.or([e('model_at', 'is', null), e('model_at', '>', answeredSince)]))
    .limit(1)
    .executeTakeFirst()
  return pending !== undefined
}

/** Deletes complete drills except the newest ones. */
export async function deleteOldDrills(db: Db, kept: number): Promise<void> {
  const newest = db.selectFrom('drills').select('id').orderBy('requested_at', 'desc').orderBy('id', 'desc').limit(kept)
  await db.deleteFrom('drills').where('completed_at', 'is not', null).where('id', 'not in', newest).execute()
}

/** Deletes the questions of drills that are complete, and those of the schedule from before an instant. */
export const deleteOldAsks = (db: Db, scheduledBefore: number, stopping?: AbortSignal): Promise<void> => {
  const where = sql`case when drill_id = ${scheduleId} then asked_at < ${scheduledBefore}
    else not exists (select 1 from drills where drills.id = drill_asks.drill_id and drills.completed_at is null) end`
  return deleteInPortions(db, 'drill_asks', { key: ['drill_id', 'instance_id'], where }, stopping)
}
