import { sql } from 'kysely'
import type { Database } from '../../db/database.ts'
import type { Schema } from '../../db/schema.ts'

/** An instance before a heartbeat of another run. */
export type BootChange = Pick<
  Schema['instances'],
  | 'id'
  | 'last_heartbeat_at'
  | 'boot_id'
  | 'boots'
  | 'clone_count'
  | 'clone_reported_at'
  | 'crash_loop_at'
  | 'agent_type'
  | 'version'
  | 'fail_mode'
>

/** The new values; `before` is `boots` as read, to detect a change by another process. */
export type BootNote = BootChange & { before: string | null }

/** Stores starts of instances whose `boots` are unchanged since they were read; resolves with their ids. */
export async function noteBoots(
  { db, dialect }: Pick<Database, 'db' | 'dialect'>,
  notes: readonly BootNote[],
): Promise<Set<string>> {
  const rows = dialect.rowsFromJson(
    JSON.stringify(
      notes.map((note) => [
        note.id,
        note.before,
        note.boots,
        note.clone_count,
        note.clone_reported_at,
        note.crash_loop_at,
      ]),
    ),
    {
      id: 'text',
      before: 'text',
      boots: 'text',
      clone_count: 'bigint',
      clone_reported_at: 'bigint',
      crash_loop_at: 'bigint',
    },
  )
  const update = sql<{ id: string }>`update instances set boots = batch.boots, clone_count = batch.clone_count,
      clone_reported_at = batch.clone_reported_at, crash_loop_at = batch.crash_loop_at
    from ${rows} as batch
    where instances.id = batch.id and coalesce(instances.boots, '') = coalesce(batch.before, '')
    returning instances.id`
  return new Set((await update.execute(db)).rows.map(({ id }) => id))
}
