import type { Database } from './database.ts'

/** Rejects with DatabaseError when the database does not answer, or cannot be written as events are. */
export async function probe({ db, batch }: Database, now: number): Promise<void> {
  const mark = db
    .insertInto('job_runs')
    .values({ name: 'probe', last_run_at: now })
    .onConflict((conflict) => conflict.column('name').doUpdateSet({ last_run_at: now }))
  await batch([mark.compile()])
}
