import { type AlertDetail, limits } from '@wardline/contract'
import { isoTime } from '../../clock.ts'
import type { Db, Trx } from '../../db/database.ts'
import type { Deps } from '../../deps.ts'
import { AppError, unknownId } from '../../errors.ts'
import type { Principal } from '../../http/auth.ts'
import { uuidV7 } from '../../ids.ts'
import { type Actor, recordAction } from '../audit/audit.ts'
import { keyNames } from '../keys/key-names.ts'
import {
  clearComment,
  countComments,
  deleteComments,
  findComment,
  insertComment,
  readComments,
} from './outbox/comment-queries.ts'
import { findAlert } from './outbox/queries.ts'

/** Arguments of every change by people. */
export interface Changing extends Pick<Deps, 'database' | 'config'> {
  principal: Principal
  actor: Actor
  now: number
}

/** Deletes the comments on these alerts, whose time is over. */
export const forgetComments = deleteComments

/** Returns the comments on an alert, oldest first, as the caller sees them. */
export async function listComments(db: Db, alertSeq: number, owner: string): Promise<AlertDetail['comments']> {
  const rows = await readComments(db, alertSeq)
  const names = await keyNames.names(
    db,
    rows.flatMap(({ author, deleted_by }) => (deleted_by === null ? author : [author, deleted_by])),
  )
  const nameOf = (id: string) => names.get(id) ?? id
  return rows.map(({ id, at, author, text, deleted_by }) => ({
    id,
    at: isoTime(at),
    author,
    author_name: nameOf(author),
    own: author === owner,
    text,
    deleted_by_name: deleted_by === null ? null : nameOf(deleted_by),
  }))
}

/**
 * Adds a comment within a transaction, and returns its id. The audit entry, which has no text so that a deleted one is
 * gone, comes first: its lock serializes comments, so that concurrent ones do not exceed the limit. Throws AppError
 * `invalid` when the alert has all comments that it may have.
 */
export async function writeComment(
  trx: Trx,
  { database, principal, actor, now }: Changing,
  alert: { id: string; seq: number },
  text: string,
): Promise<string> {
  const id = uuidV7(now)
  const action = { action: 'alert.comment', target: alert.id, before: null, after: { comment: id } }
  await recordAction(database, trx, actor, action, now)
  if ((await countComments(trx, alert.seq)) >= limits.alertComments) {
    throw new AppError('invalid', `The alert has ${limits.alertComments} comments, the maximum.`)
  }
  const author = principal.registers.owner
  await insertComment(trx, { id, alert_seq: alert.seq, author, at: now, text: text.trim(), deleted_by: null })
  return id
}

/** Returns the id of the comment. Throws AppError `not_found` or `invalid`. */
export async function addComment(changing: Changing, alertId: string, text: string): Promise<string> {
  const { db } = changing.database
  const alert = await findAlert(db, alertId, changing.principal.team)
  if (!alert) throw unknownId('alert', alertId, 'wardline alerts list')
  return db.transaction().execute((trx) => writeComment(trx, changing, alert, text))
}

/** Deletes the text of a comment. Throws AppError `not_found`, or `forbidden` for the comment of another. */
export async function deleteComment(changing: Changing, id: string): Promise<void> {
  const { database, principal, actor, now } = changing
  const { db } = database
  const comment = await findComment(db, id, principal.team)
  if (!comment) throw unknownId('comment', id, 'wardline alerts show')
  const owner = principal.registers.owner
  if (comment.author !== owner && principal.scope !== 'admin') {
    throw new AppError('forbidden', 'Only its author or scope admin may delete this comment.')
  }
  if (comment.deleted_by !== null) return
  const before = { comment: id, author: comment.author }
  await db.transaction().execute(async (trx) => {
    const action = { action: 'alert.comment_delete', target: comment.alert_id, before, after: null }
    await recordAction(database, trx, actor, action, now)
    await clearComment(trx, id, owner)
  })
}
