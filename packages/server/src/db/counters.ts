import { type RawBuilder, sql } from 'kysely'
import type { Db } from './database.ts'
import type { Schema } from './schema.ts'

type Counter = Schema['counters']['name']

/** SQL expression for the counter's value. */
export const counterValue = (name: Counter) => sql<number>`(select value from counters where name = ${sql.lit(name)})`

/** Sets a counter. The row stays locked until the transaction ends, so other writers of the counter wait. */
export const setCounter = (name: Counter, value: RawBuilder<unknown>) =>
  sql`update counters set value = ${value} where name = ${sql.lit(name)}`

export const raiseCounter = (name: Counter, by: number) => setCounter(name, sql`value + ${by}`)

/** Locks the counter without changing it. */
export const lockCounter = (name: Counter) => setCounter(name, sql`value`)

export async function readCounters(db: Db): Promise<Record<Counter, number>> {
  const rows = await db.selectFrom('counters').selectAll().execute()
  return Object.fromEntries(rows.map(({ name, value }) => [name, value])) as Record<Counter, number>
}

export async function readCounter(db: Db, name: Counter): Promise<number> {
  const row = await db.selectFrom('counters').select('value').where('name', '=', name).executeTakeFirstOrThrow()
  return row.value
}
