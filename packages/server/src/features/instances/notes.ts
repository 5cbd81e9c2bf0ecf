import type { ReplyOf } from '@wardline/contract'
import { isoTime } from '../../clock.ts'
import type { Database, Db } from '../../db/database.ts'
import { changeGuarded } from '../../db/guarded-change.ts'
import { unknownInstance } from '../../errors.ts'
import { type Actor, auditStatements } from '../audit/audit.ts'
import { keyNames } from '../keys/key-names.ts'
import { deleteNote, findNote, noteStatements } from './note-statements.ts'
import { findInstance } from './queries.ts'

type AgentNote = ReplyOf<'getInstance'>['note']

/** Returns the note on an agent; null without one. */
export async function readNote(db: Db, instanceId: string): Promise<AgentNote> {
  const row = await findNote(db, instanceId)
  if (!row) return null
  const { text, author, at } = row
  const names = await keyNames.names(db, [author])
  return { text, author, author_name: names.get(author) ?? author, at: isoTime(at) }
}

/**
 * Replaces the note on an agent; a blank text removes it. The audit entry has no text, so that a removed one is gone.
 * Throws AppError `not_found`.
 */
export function setNote(
  database: Database,
  id: string,
  given: string,
  { author, actor }: { author: string; actor: Actor },
  now: number,
): Promise<void> {
  const { db } = database
  const text = given.trim()
  return changeGuarded(database, async () => {
    if (!(await findInstance(db, id))) throw unknownInstance(id)
    const found = await findNote(db, id)
    const isSame = text === (found?.text ?? '')
    const before = found ? { author: found.author, at: isoTime(found.at) } : null
    const after = text === '' ? null : { author, at: isoTime(now) }
    const action = { action: 'instance.note', target: id, before, after }
    const store =
      text === '' ? [deleteNote(db, id)] : noteStatements(database, { instance_id: id, author, at: now, text })
    return {
      statements: isSame ? [] : [...store, ...auditStatements(database, actor, action, now)],
      result: () => undefined,
    }
  })
}
