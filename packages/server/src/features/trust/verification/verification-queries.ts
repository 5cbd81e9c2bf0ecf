import { dayMs } from '../../../clock.ts'
import type { Db } from '../../../db/database.ts'
import type { VerificationsTable } from '../../../db/schema/trust.ts'

/** Older results say nothing about today. */
const validMs = 30 * dayMs

/** What was verified. Changing it makes a different subject. */
export type VerifiedSubject = Pick<VerificationsTable, 'chain_id' | 'agent_registry' | 'agent_id' | 'url'>

export async function insertVerification(db: Db, row: VerificationsTable): Promise<void> {
  await db
    .deleteFrom('verifications')
    .where('at', '<', row.at - validMs)
    .execute()
  await db.insertInto('verifications').values(row).execute()
}

/**
 * The verifications of a subject. Rows of earlier versions, which checked the wallet of the settings without asking
 * whose it is, are of no subject.
 */
function ofSubject(db: Db, { chain_id, agent_registry, agent_id, url }: VerifiedSubject, now: number) {
  const rows = db
    .selectFrom('verifications')
    .where('chain_id', '=', chain_id)
    .where('at', '>=', now - validMs)
    .orderBy('at', 'desc')
  return agent_id === null
    ? rows.where('url', '=', url).where('agent_id', 'is', null).where('wallet', 'is', null)
    : rows.where('agent_registry', '=', agent_registry).where('agent_id', '=', agent_id)
}

/** Returns the latest verification of a subject. */
export const readVerification = (db: Db, subject: VerifiedSubject, now: number) =>
  ofSubject(db, subject, now).selectAll().limit(1).executeTakeFirst()

/** Records that a verification is being posted. It is shown once its transactions are confirmed. */
export async function notePosting(db: Db, id: string, requestHash: string, report: string): Promise<void> {
  await db.updateTable('verifications').set({ request_hash: requestHash, report }).where('id', '=', id).execute()
}

/** Returns the posted verifications of a subject, newest first. */
export const readPosted = (db: Db, subject: VerifiedSubject, now: number, limit: number) =>
  ofSubject(db, subject, now)
    .select(['request_hash', 'report'])
    .where('request_hash', 'is not', null)
    .limit(limit)
    .execute()
