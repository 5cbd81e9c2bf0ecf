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

const afterTime = (now: number) => sql`case when value < ${now} then ${now} else value + 1 end`

/** Raises a counter to the time, so that after a restore its next value is higher than any before. */
export const raiseToTime = (name: Counter, now: number) => setCounter(name, afterTime(now))

/** Like `raiseToTime`, for a counter that was raised before; locks it in any case. */
export const raiseToTimeAgain = (name: Counter, now: number) =>
  setCounter(name, sql`case when value = 0 then 0 else ${afterTime(now)} end`)

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
