import type { Db } from './database.ts'

/** Rejects with DatabaseError when the database does not answer or cannot be written. */
export async function probe(db: Db, now: number): Promise<void> {
  await db
    .insertInto('job_runs')
    .values({ name: 'probe', last_run_at: now })
    .onConflict((conflict) => conflict.column('name').doUpdateSet({ last_run_at: now }))
    .execute()
}
