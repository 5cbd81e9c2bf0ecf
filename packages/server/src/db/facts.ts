import type { Db, Statement } from './database.ts'
import type { Schema } from './schema.ts'

/** Stores the value unless the fact already has one. Resolves with the stored value. */
export async function claimFact(db: Db, name: Schema['facts']['name'], value: string): Promise<string> {
  await db
    .insertInto('facts')
    .values({ name, value })
    .onConflict((conflict) => conflict.column('name').doNothing())
    .execute()
  const fact = await db.selectFrom('facts').select('value').where('name', '=', name).executeTakeFirstOrThrow()
  return fact.value
}

export async function isFactKnown(db: Db, name: Schema['facts']['name']): Promise<boolean> {
  return (await db.selectFrom('facts').select('name').where('name', '=', name).executeTakeFirst()) !== undefined
}

/** Sets or removes a fact, in a batch. */
export const factStatement = (db: Db, name: Schema['facts']['name'], value: string | undefined): Statement =>
  value === undefined
    ? db.deleteFrom('facts').where('name', '=', name).compile()
    : db
        .insertInto('facts')
        .values({ name, value })
        .onConflict((conflict) => conflict.column('name').doUpdateSet({ value }))
        .compile()
