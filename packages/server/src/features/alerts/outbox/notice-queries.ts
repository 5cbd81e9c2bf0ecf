import { sql } from 'kysely'
import { readCounter, setCounter } from '../../../db/counters.ts'
import type { Db, Trx } from '../../../db/database.ts'
import type { Schema } from '../../../db/schema.ts'
import { isOfTeam, type Team } from '../../../db/teams.ts'
import type { StoredAlert } from './alert.ts'
import { type PlannedAlert, plannedColumns, readAlertHead, toHandle } from './queries.ts'

// Owns alert_notices: the alerts that people are to get by mail.

export type NoticeRow = Schema['alert_notices']

/** Alerts further back than this are not looked through when mail was not sent for long. */
const searched = 10_000

/** Reads open alerts that were not looked through yet, oldest first, and the place after them. */
export async function readUnmailed(db: Db, limit: number): Promise<{ from: number; to: number; rows: PlannedAlert[] }> {
  const from = await readCounter(db, 'mailed_seq')
  const head = await readAlertHead(db)
  if (from >= head) return { from, to: from, rows: [] }
  const rows = await db
    .selectFrom('alerts')
    .select(plannedColumns)
    .where('seq', '>', Math.max(from, head - searched))
    .where('seq', '<=', head)
    .where('status', '=', 'open')
    .where(toHandle)
    .orderBy('seq')
    .limit(limit)
    .execute()
  return { from, to: rows.length === limit ? rows.at(-1)!.seq : head, rows }
}

/** Moves the place; false: another process was faster. */
export async function advanceMailed(trx: Trx, from: number, to: number): Promise<boolean> {
  const { numAffectedRows } = await sql`${setCounter('mailed_seq', sql`${to}`)} and value = ${from}`.execute(trx)
  return numAffectedRows === 1n
}

/** Adds alerts of chosen tags; one that a person is to get already stays. */
export async function insertNotices(trx: Trx, rows: readonly NoticeRow[]): Promise<void> {
  if (rows.length === 0) return
  await trx
    .insertInto('alert_notices')
    .values([...rows])
    .onConflict((conflict) => conflict.doNothing())
    .execute()
}

/** Adds an alert that was assigned to a person. */
export async function insertAssigned(trx: Trx, person_id: string, alert_seq: number, at: number): Promise<void> {
  await trx
    .insertInto('alert_notices')
    .values({ person_id, alert_seq, tag: null, at, held: 0 })
    .onConflict((conflict) => conflict.columns(['person_id', 'alert_seq']).doUpdateSet({ tag: null }))
    .execute()
}

/** Returns whom alerts wait for, with their number and the time of the first. */
export function readWaitingFor(db: Db) {
  return db
    .selectFrom('alert_notices')
    .select((e) => ['person_id', e.fn.countAll<number>().as('count'), e.fn.min('at').as('since')])
    .groupBy('person_id')
    .orderBy('since')
    .execute()
}

/** Notes that the alerts of a person wait because of the limit. */
export async function holdNotices(db: Db, personId: string): Promise<void> {
  await db
    .updateTable('alert_notices')
    .set({ held: 1 })
    .where('person_id', '=', personId)
    .where('held', '=', 0)
    .execute()
}

/** Deletes these alerts, whose time is over. */
export async function deleteNotices(db: Db, alertSeqs: readonly number[]): Promise<void> {
  await db.deleteFrom('alert_notices').where('alert_seq', 'in', alertSeqs).execute()
}

/** Takes all alerts of a person; none if another process was faster. */
export function takeNotices(trx: Trx, personId: string): Promise<NoticeRow[]> {
  return trx.deleteFrom('alert_notices').where('person_id', '=', personId).returningAll().execute()
}

/** Reads those of the alerts that are about the team's agents, oldest first. */
export async function readOfTeam(
  db: Db,
  seqs: readonly number[],
  team: Team,
): Promise<(PlannedAlert & Pick<StoredAlert, 'status' | 'assignee'>)[]> {
  if (seqs.length === 0) return []
  return db
    .selectFrom('alerts')
    .select([...plannedColumns, 'status', 'assignee'])
    .where('seq', 'in', [...seqs])
    .where(isOfTeam('instance_id', team))
    .orderBy('seq')
    .execute()
}
