import type { Database, Db } from './database.ts'

// Times by name, shared by all processes: when a job last ran, or since when a condition lasts.

export async function recordRun(db: Db, name: string, now: number): Promise<void> {
  await db
    .insertInto('job_runs')
    .values({ name, last_run_at: now })
    .onConflict((conflict) => conflict.column('name').doUpdateSet({ last_run_at: now }))
    .execute()
}

/** Records the run unless one was recorded since `before`. Only one of several processes gets true. */
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

/** Deletes the record. False if another process did so first. */
export async function endRun(db: Db, name: string): Promise<boolean> {
  const { numDeletedRows } = await db.deleteFrom('job_runs').where('name', '=', name).executeTakeFirstOrThrow()
  return numDeletedRows === 1n
}

/** Rejects with DatabaseError if the database does not respond or cannot be written in the way events are. */
export async function probe({ db, batch }: Database, now: number): Promise<void> {
  const mark = db
    .insertInto('job_runs')
    .values({ name: 'probe', last_run_at: now })
    .onConflict((conflict) => conflict.column('name').doUpdateSet({ last_run_at: now }))
  await batch([mark.compile()])
}
