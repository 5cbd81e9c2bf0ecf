import type { Database, Db } from './database.ts'

// When something was last done, or since when something lasts, by name; the same for all processes.

export async function recordRun(db: Db, name: string, now: number): Promise<void> {
  await db
    .insertInto('job_runs')
    .values({ name, last_run_at: now })
    .onConflict((conflict) => conflict.column('name').doUpdateSet({ last_run_at: now }))
    .execute()
}

/** Records it unless that was done since `before`; false when it was: of several processes one gets true. */
export async function claimRun(db: Db, name: string, before: number, now: number): Promise<boolean> {
  const { numInsertedOrUpdatedRows } = await db
    .insertInto('job_runs')
    .values({ name, last_run_at: now })
    .onConflict((conflict) =>
      conflict.column('name').doUpdateSet({ last_run_at: now }).where('job_runs.last_run_at', '<', before),
    )
    .executeTakeFirstOrThrow()
  return numInsertedOrUpdatedRows === 1n
}

/** Null = never. */
export async function readRun(db: Db, name: string): Promise<number | null> {
  const run = await db.selectFrom('job_runs').select('last_run_at').where('name', '=', name).executeTakeFirst()
  return run?.last_run_at ?? null
}

/** Forgets what ended; false when another process was faster. */
export async function endRun(db: Db, name: string): Promise<boolean> {
  const { numDeletedRows } = await db.deleteFrom('job_runs').where('name', '=', name).executeTakeFirstOrThrow()
  return numDeletedRows === 1n
}

/** Rejects with DatabaseError when the database does not answer, or cannot be written as events are. */
export async function probe({ db, batch }: Database, now: number): Promise<void> {
  const mark = db
    .insertInto('job_runs')
    .values({ name: 'probe', last_run_at: now })
    .onConflict((conflict) => conflict.column('name').doUpdateSet({ last_run_at: now }))
  await batch([mark.compile()])
}
