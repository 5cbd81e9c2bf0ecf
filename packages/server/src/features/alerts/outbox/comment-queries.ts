import type { Db, Trx } from '../../../db/database.ts'
import type { Schema } from '../../../db/schema.ts'
import { isOfTeam, type Team } from '../../../db/teams.ts'

export type CommentRow = Schema['alert_comments']

/** Returns the comments on an alert, oldest first. */
export function readComments(db: Db, alertSeq: number): Promise<CommentRow[]> {
  return db
    .selectFrom('alert_comments')
    .selectAll()
    .where('alert_seq', '=', alertSeq)
    .orderBy('at')
    .orderBy('id')
    .execute()
}

export async function countComments(db: Db, alertSeq: number): Promise<number> {
  const { count } = await db
    .selectFrom('alert_comments')
    .select((e) => e.fn.countAll<number>().as('count'))
    .where('alert_seq', '=', alertSeq)
    .executeTakeFirstOrThrow()
  return count
}

/** Counts the comments that are not deleted, by seq of their alert; alerts without any are missing. */
export async function countUndeleted(db: Db, alertSeqs: readonly number[]): Promise<Map<number, number>> {
  if (alertSeqs.length === 0) return new Map()
  const rows = await db
    .selectFrom('alert_comments')
    .select((e) => ['alert_seq', e.fn.countAll<number>().as('count')])
    .where('alert_seq', 'in', alertSeqs)
    .where('text', 'is not', null)
    .groupBy('alert_seq')
    .execute()
  return new Map(rows.map(({ alert_seq, count }) => [alert_seq, count]))
}

/** Returns a comment with the id of its alert. */
export function findComment(db: Db, id: string, team: Team): Promise<(CommentRow & { alert_id: string }) | undefined> {
  return db
    .selectFrom('alert_comments')
    .innerJoin('alerts', 'alerts.seq', 'alert_comments.alert_seq')
    .selectAll('alert_comments')
    .select('alerts.id as alert_id')
    .where('alert_comments.id', '=', id)
    .where(isOfTeam('alerts.instance_id', team))
    .executeTakeFirst()
}

export async function insertComment(trx: Trx, row: CommentRow): Promise<void> {
  await trx.insertInto('alert_comments').values(row).execute()
}

export async function clearComment(trx: Trx, id: string, deletedBy: string): Promise<void> {
  await trx
    .updateTable('alert_comments')
    .set({ text: null, deleted_by: deletedBy })
    .where('id', '=', id)
    .where('deleted_by', 'is', null)
    .execute()
}

/** Deletes the comments on these alerts. */
export async function deleteComments(db: Db, alertSeqs: readonly number[]): Promise<void> {
  await db.deleteFrom('alert_comments').where('alert_seq', 'in', alertSeqs).execute()
}
