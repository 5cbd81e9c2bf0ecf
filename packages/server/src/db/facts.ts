import type { Database, Db, Statement } from './database.ts'
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

const selectFact = (db: Db, name: Schema['facts']['name']) =>
  db.selectFrom('facts').select('value').where('name', '=', name)

export async function readFact(db: Db, name: Schema['facts']['name']): Promise<string | undefined> {
  return (await selectFact(db, name).executeTakeFirst())?.value
}

export async function isFactKnown(db: Db, name: Schema['facts']['name']): Promise<boolean> {
  return (await readFact(db, name)) !== undefined
}

/** Fails the batch as stale unless the fact has this value. */
export const lockFactStatement = (
  { db, dialect }: Pick<Database, 'db' | 'dialect'>,
  name: Schema['facts']['name'],
  value: string,
): Statement => dialect.lockFound(selectFact(db, name).where('value', '=', value).compile())

/** Sets or removes a fact, in a batch. */
export const factStatement = (db: Db, name: Schema['facts']['name'], value: string | undefined): Statement =>
  value === undefined
    ? db.deleteFrom('facts').where('name', '=', name).compile()
    : db
        .insertInto('facts')
        .values({ name, value })
        .onConflict((conflict) => conflict.column('name').doUpdateSet({ value }))
        .compile()
