import { sql } from 'kysely'
import type { Database, Db, Statement, Trx } from '../../db/database.ts'
import type { Schema } from '../../db/schema.ts'

export type HoneypotRow = Schema['honeypots']
export type HitRow = Schema['honeypot_hits']
export type Decoy = Pick<HoneypotRow, 'id' | 'instance_id' | 'type' | 'key_type' | 'path'>

const decoyColumns = ['id', 'instance_id', 'type', 'key_type', 'path'] as const

export async function insertHoneypot(trx: Trx, row: HoneypotRow, digests: readonly string[]): Promise<void> {
  await trx.insertInto('honeypots').values(row).execute()
  if (digests.length === 0) return
  const fingerprints = digests.map((digest) => ({ digest, honeypot_id: row.id }))
  await trx.insertInto('honeypot_fingerprints').values(fingerprints).execute()
}

export function listHoneypotRows(db: Db, instanceId: string | undefined) {
  const rows = db
    .selectFrom('honeypots')
    .select(['id', 'type', 'key_type', 'created_at'])
    .where('deleted_at', 'is', null)
    .orderBy('created_at')
    .orderBy('id')
  return (instanceId === undefined ? rows : rows.where('instance_id', '=', instanceId)).execute()
}

export function findHoneypot(db: Db, id: string): Promise<HoneypotRow | undefined> {
  return db.selectFrom('honeypots').selectAll().where('id', '=', id).executeTakeFirst()
}

/** Removes the decoy from matching; its row stays for its hits. Undefined when it is unknown or removed already. */
export async function removeHoneypot(trx: Trx, id: string, now: number) {
  const removed = await trx
    .updateTable('honeypots')
    .set({ deleted_at: now })
    .where('id', '=', id)
    .where('deleted_at', 'is', null)
    .returning(['instance_id', 'type'])
    .executeTakeFirst()
  if (removed) await trx.deleteFrom('honeypot_fingerprints').where('honeypot_id', '=', id).execute()
  return removed
}

/** Decoys that answer to any of the digests, oldest first. */
export function createDigestLookup({ db, dialect }: Database): (digests: readonly string[]) => Promise<Decoy[]> {
  const asked = (digests: readonly string[]) => {
    const rows = dialect.rowsFromJson(JSON.stringify(digests.map((digest) => [digest])), { digest: 'text' })
    return sql<string>`(select digest from ${rows} as asked)`
  }
  return (digests) =>
    db
      .selectFrom('honeypots')
      .select(decoyColumns)
      .where('deleted_at', 'is', null)
      .where('id', 'in', (e) =>
        e.selectFrom('honeypot_fingerprints').select('honeypot_id').where('digest', 'in', asked(digests)),
      )
      .orderBy('id')
      .execute()
}

export function readPatterns(db: Db): Promise<Decoy[]> {
  return db
    .selectFrom('honeypots')
    .select(decoyColumns)
    .where('is_pattern', '=', 1)
    .where('deleted_at', 'is', null)
    .orderBy('id')
    .execute()
}

/** Whether there are decoy keys, and the instances with decoy paths, at most `limit`. */
export async function readPlanted(db: Db, limit: number): Promise<{ hasKeys: boolean; pathInstances: string[] }> {
  const key = await db
    .selectFrom('honeypots')
    .select('id')
    .where('type', '=', 'api_key')
    .where('deleted_at', 'is', null)
    .limit(1)
    .executeTakeFirst()
  const paths = await db
    .selectFrom('honeypots')
    .select('instance_id')
    .distinct()
    .where('type', '=', 'file_path')
    .where('deleted_at', 'is', null)
    .limit(limit)
    .execute()
  return { hasKeys: key !== undefined, pathInstances: paths.map(({ instance_id }) => instance_id) }
}

/** Exact path decoys after `afterId`, by id. */
export function readExactPaths(db: Db, afterId: string, limit: number): Promise<Decoy[]> {
  return db
    .selectFrom('honeypots')
    .select(decoyColumns)
    .where('type', '=', 'file_path')
    .where('is_pattern', '=', 0)
    .where('deleted_at', 'is', null)
    .where('id', '>', afterId)
    .orderBy('id')
    .limit(limit)
    .execute()
}

export function insertHit(db: Db, hit: HitRow): Statement {
  return db.insertInto('honeypot_hits').values(hit).compile()
}

export async function readHits(db: Db, honeypotId: string, limit: number): Promise<{ hits: HitRow[]; count: number }> {
  const { count } = await db
    .selectFrom('honeypot_hits')
    .select((e) => e.fn.countAll<number>().as('count'))
    .where('honeypot_id', '=', honeypotId)
    .executeTakeFirstOrThrow()
  const hits = await db
    .selectFrom('honeypot_hits')
    .selectAll()
    .where('honeypot_id', '=', honeypotId)
    .orderBy('at', 'desc')
    .limit(limit)
    .execute()
  return { hits, count: Number(count) }
}
