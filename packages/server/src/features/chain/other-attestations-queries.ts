import type { Db } from '../../db/database.ts'
import type { OtherAttestationsTable } from '../../db/schema/chain.ts'
import type { Schema } from '../../db/schema.ts'
import { isShown } from './chain-statements.ts'
import type { Place, Shown } from './known-contracts.ts'

export type OtherAttestation = OtherAttestationsTable
export type Reading = Schema['chain_attesters']

/** Deletes what an earlier configuration found. */
export async function removeOthers(db: Db, shown: Shown): Promise<void> {
  await db
    .deleteFrom('chain_other_attestations')
    .where((e) => e.not(isShown(shown)(e)))
    .execute()
  const { attesters } = shown
  await db
    .deleteFrom('chain_attesters')
    .where('attester', 'not in', attesters.length > 0 ? attesters : [''])
    .execute()
}

export function readReadings(db: Db): Promise<Reading[]> {
  return db.selectFrom('chain_attesters').selectAll().execute()
}

/**
 * Starts reading an account at these blocks, unless it is read in this scope already. One that was started at a block that
 * there is not, because a node lied, starts again.
 */
export async function addReading(db: Db, reading: Reading): Promise<void> {
  await db
    .insertInto('chain_attesters')
    .values(reading)
    .onConflict((conflict) =>
      conflict
        .column('attester')
        .doUpdateSet(reading)
        .where((e) =>
          e.or([e('chain_attesters.scope', '<>', reading.scope), e('chain_attesters.low', '>', reading.low)]),
        ),
    )
    .execute()
}

/** Claims an account until a time; undefined while it is not due or another process reads it. */
export function claimReading(db: Db, attester: string, now: number, until: number): Promise<Reading | undefined> {
  return db
    .updateTable('chain_attesters')
    .set({ next_at: until })
    .where('attester', '=', attester)
    .where('next_at', '<=', now)
    .returningAll()
    .executeTakeFirst()
}

export async function changeReading(db: Db, attester: string, changes: Partial<Reading>): Promise<void> {
  await db.updateTable('chain_attesters').set(changes).where('attester', '=', attester).execute()
}

/** Returns the stored attestations of an account at a place. */
export function readStored(db: Db, attester: string, { contract, subject }: Place): Promise<OtherAttestation[]> {
  return db
    .selectFrom('chain_other_attestations')
    .selectAll()
    .where((e) => e.and({ attester, contract, subject }))
    .execute()
}

const keyOf = ({ chain_id, contract, subject, attester, uid }: OtherAttestation) => ({
  ...{ chain_id, contract, subject, attester, uid },
})

export async function removeOther(db: Db, row: OtherAttestation): Promise<void> {
  await db
    .deleteFrom('chain_other_attestations')
    .where((e) => e.and(keyOf(row)))
    .execute()
}

/** Stores an attestation. One that is known keeps the time at which it was first seen. */
export async function storeOther(db: Db, row: OtherAttestation): Promise<void> {
  const { seen_at, ...changes } = row
  await db
    .insertInto('chain_other_attestations')
    .values({ ...changes, seen_at })
    .onConflict((conflict) =>
      conflict.columns(['chain_id', 'contract', 'subject', 'attester', 'uid']).doUpdateSet(changes),
    )
    .execute()
}
