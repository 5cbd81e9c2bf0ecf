import { sql } from 'kysely'
import { counterValue, raiseToTime, readCounter } from '../../db/counters.ts'
import type { Db, Trx } from '../../db/database.ts'
import type { Schema } from '../../db/schema.ts'

export type PolicyRow = Schema['policies']

/** Reads all policies, ordered by title: there are few. */
export function readPolicies(db: Db): Promise<PolicyRow[]> {
  return db.selectFrom('policies').selectAll().orderBy('title').orderBy('id').execute()
}

/** Reads what agents get, ordered by title, with the version of the sets at the same moment. */
export async function readSet(db: Db) {
  const rows = await db
    // One row at least, so that the version is read of no policy as well.
    .selectFrom(sql<{ one: number }>`(select 1 as one)`.as('head'))
    .leftJoin('policies', (join) => join.onTrue())
    .select(['id', 'title', 'version', 'mode', 'document', counterValue('policy_set').as('set_version')])
    .orderBy('title')
    .orderBy('id')
    .execute()
  const policies = rows.flatMap(({ id, title, version, mode, document }) =>
    id === null ? [] : [{ id, title: title!, version: Number(version), mode: mode!, document: document! }],
  )
  return { policies, version: Number(rows[0]!.set_version) }
}

export const readSetVersion = async (db: Db): Promise<number> => Number(await readCounter(db, 'policy_set'))

/** Raises the version of the sets. Its lock serializes changes of policies. */
export async function raiseSetVersion(trx: Trx, now: number): Promise<void> {
  await raiseToTime('policy_set', now).execute(trx)
}

export function findPolicy(db: Db, id: string): Promise<PolicyRow | undefined> {
  return db.selectFrom('policies').selectAll().where('id', '=', id).executeTakeFirst()
}

/** Counts the policies and the bytes of their documents, without this one. */
export async function measureOthers(db: Db, id: string): Promise<{ count: number; bytes: number }> {
  const { count, bytes } = await db
    .selectFrom('policies')
    .select((e) => [e.fn.countAll<number>().as('count'), e.fn.sum<number | null>('bytes').as('bytes')])
    .where('id', '!=', id)
    .executeTakeFirstOrThrow()
  return { count: Number(count), bytes: Number(bytes ?? 0) }
}

/** Returns the last version of a policy with this id, also of a deleted one; 0: none. */
export async function readLastVersion(db: Db, id: string): Promise<number> {
  const { version } = await db
    .selectFrom('policy_versions')
    .select((e) => e.fn.max('version').as('version'))
    .where('policy_id', '=', id)
    .executeTakeFirstOrThrow()
  return Number(version ?? 0)
}

/** Stores a policy, new or changed. */
export async function writePolicy(trx: Trx, row: PolicyRow, isNewVersion: boolean): Promise<void> {
  const { id, created_at: _, ...changed } = row
  await trx
    .insertInto('policies')
    .values(row)
    .onConflict((conflict) => conflict.column('id').doUpdateSet(changed))
    .execute()
  if (!isNewVersion) return
  const { version, text, format, changed_at, changed_by } = row
  await trx
    .insertInto('policy_versions')
    .values({ policy_id: id, version, text, format, created_at: changed_at, created_by: changed_by })
    .execute()
}

/** Deletes a policy. Its versions stay as a record of the reasons for decisions. */
export async function removePolicy(trx: Trx, id: string): Promise<void> {
  await trx.deleteFrom('policies').where('id', '=', id).execute()
}

/** Reads the versions, newest first, without texts. */
export function readVersions(db: Db, id: string, limit: number) {
  return db
    .selectFrom('policy_versions')
    .select(['version', 'created_at', 'created_by'])
    .where('policy_id', '=', id)
    .orderBy('version', 'desc')
    .limit(limit)
    .execute()
}

export function findVersion(db: Db, id: string, version: number) {
  return db
    .selectFrom('policy_versions')
    .selectAll()
    .where('policy_id', '=', id)
    .where('version', '=', version)
    .executeTakeFirst()
}
