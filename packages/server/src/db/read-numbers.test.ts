import { CompiledQuery, sql } from 'kysely'
import { expect, it } from 'vitest'
import { openTestDatabase } from '../testing/service.ts'
import type { Db, Row } from './database.ts'
import { migrate } from './migrate.ts'

// Callers compare and add values without converting them. A count returned as text would be concatenated, not added.
it('returns columns, counts, sums and differences as numbers on every read path', async () => {
  await using opened = await openTestDatabase()
  const { database } = opened
  await migrate(database, 0)
  const large = 2 ** 53 - 1
  await database.db
    .insertInto('job_runs')
    .values([{ name: 'a', last_run_at: large }])
    .execute()
  const query = (db: Db) =>
    db
      .selectFrom('job_runs')
      .select((e) => [
        'last_run_at',
        e.fn.countAll<number>().over().as('count'),
        e.fn.sum<number>('last_run_at').over().as('sum'),
        e.fn.max('last_run_at').over().as('max'),
        sql<number>`last_run_at - 1`.as('difference'),
        sql<number>`sum(case when last_run_at > 0 then 1 else 0 end) over ()`.as('cases'),
      ])
  const expected = [{ last_run_at: large, count: 1, sum: large, max: large, difference: large - 1, cases: 1 }]
  expect(await query(database.db).execute()).toEqual(expected)
  expect(await database.scan('a test', (db) => query(db).execute())).toEqual(expected)
  expect(await database.db.transaction().execute((trx) => query(trx).execute())).toEqual(expected)
  const compiled: CompiledQuery<Row> = query(database.db).compile()
  expect(await database.batch([compiled])).toEqual([expected])
  const written = CompiledQuery.raw(`update job_runs set last_run_at = last_run_at - 1 returning last_run_at`)
  expect(await database.batch([written])).toEqual([[{ last_run_at: large - 1 }]])
})
