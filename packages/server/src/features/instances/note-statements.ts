import type { Database, Db, Statement } from '../../db/database.ts'
import type { Schema } from '../../db/schema.ts'

type NoteRow = Schema['agent_notes']

export function findNote(db: Db, instanceId: string): Promise<NoteRow | undefined> {
  return db.selectFrom('agent_notes').selectAll().where('instance_id', '=', instanceId).executeTakeFirst()
}

/** Stores the note of an instance, in a batch that fails as stale if the instance was deleted. */
export function noteStatements({ db, dialect }: Database, { instance_id, ...note }: NoteRow): Statement[] {
  const instance = db.selectFrom('instances').select('id').where('id', '=', instance_id)
  const store = db
    .insertInto('agent_notes')
    .values({ instance_id, ...note })
    .onConflict((conflict) => conflict.column('instance_id').doUpdateSet(note))
  return [dialect.lockFound(instance.compile()), store.compile()]
}

export const deleteNote = (db: Db, instanceId: string): Statement =>
  db.deleteFrom('agent_notes').where('instance_id', '=', instanceId).compile()
