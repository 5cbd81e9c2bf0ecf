import type { Db, Trx } from '../../db/database.ts'
import type { AttestationsTable } from '../../db/schema/trust.ts'

export function readAttestations(db: Db, limit: number) {
  return db.selectFrom('attestations').selectAll().orderBy('at', 'desc').orderBy('tag').limit(limit).execute()
}

/** Returns the JSON of the signed attestation with this uid. */
export async function readSigned(db: Db, uid: string): Promise<string | undefined> {
  const row = await db.selectFrom('attestations').select('signed').where('uid', '=', uid).executeTakeFirst()
  return row?.signed ?? undefined
}

export async function readLastAttestation(trx: Trx | Db): Promise<number | null> {
  const { at } = await trx
    .selectFrom('attestations')
    .select((e) => e.fn.max('at').as('at'))
    .executeTakeFirstOrThrow()
  return at
}

/** Stores attestations, except those that another process has already stored for the same week. */
export async function insertAttestations(db: Db, attestations: readonly AttestationsTable[]): Promise<void> {
  await db
    .insertInto('attestations')
    .values(attestations)
    .onConflict((conflict) => conflict.columns(['period', 'tag']).doNothing())
    .execute()
}
