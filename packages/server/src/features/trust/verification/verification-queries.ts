import { dayMs } from '../../../clock.ts'
import type { Db } from '../../../db/database.ts'
import type { VerificationsTable } from '../../../db/schema/trust.ts'

/** Older results say nothing about today. */
const validMs = 30 * dayMs

/** The verified URL, wallet and chain. Changing one of them makes a different subject. */
export type VerifiedSubject = Pick<VerificationsTable, 'url' | 'wallet' | 'chain_id'>

export async function insertVerification(db: Db, row: VerificationsTable): Promise<void> {
  await db
    .deleteFrom('verifications')
    .where('at', '<', row.at - validMs)
    .execute()
  await db.insertInto('verifications').values(row).execute()
}

/** Returns the latest verification of a subject. */
export function readVerification(db: Db, { url, wallet, chain_id }: VerifiedSubject, now: number) {
  return db
    .selectFrom('verifications')
    .selectAll()
    .where('url', url === null ? 'is' : '=', url)
    .where('wallet', wallet === null ? 'is' : '=', wallet)
    .where('chain_id', '=', chain_id)
    .where('at', '>=', now - validMs)
    .orderBy('at', 'desc')
    .limit(1)
    .executeTakeFirst()
}

/** Records that a verification is being posted. It is shown once its transactions are confirmed. */
export async function notePosting(db: Db, id: string, requestHash: string, report: string): Promise<void> {
  await db.updateTable('verifications').set({ request_hash: requestHash, report }).where('id', '=', id).execute()
}

/** Returns the posted verifications of a subject, newest first. */
export function readPosted(db: Db, { url, wallet, chain_id }: VerifiedSubject, now: number, limit: number) {
  return db
    .selectFrom('verifications')
    .select(['request_hash', 'report'])
    .where('url', url === null ? 'is' : '=', url)
    .where('wallet', wallet === null ? 'is' : '=', wallet)
    .where('chain_id', '=', chain_id)
    .where('at', '>=', now - validMs)
    .where('request_hash', 'is not', null)
    .orderBy('at', 'desc')
    .limit(limit)
    .execute()
}
