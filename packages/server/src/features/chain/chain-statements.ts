import type { ExpressionBuilder } from 'kysely'
import type { Db } from '../../db/database.ts'
import type { OtherAttestationsTable } from '../../db/schema/chain.ts'
import type { Schema } from '../../db/schema.ts'
import type { Shown } from './known-contracts.ts'

/** Returns the identity last read from the chain. */
export function readIdentity(db: Db) {
  return db.selectFrom('chain_identities').selectAll().where('id', '=', 1).executeTakeFirst()
}

interface OnChain {
  hash: string
  uid: string
  txHash: string
  /** Undefined for EAS. */
  sink: 'feedback' | 'validation' | undefined
  /** Addresses of the contract and of the wallet that signed. */
  contract: string
  attester: string
}

/** Sinks by function selector (ERC-8004). The configured sink may have changed since the transaction was sent. */
const sinks: Record<string, OnChain['sink']> = { '0x3c036a7e': 'feedback', '0x3d659a96': 'validation' }

/** Returns the attestations that are confirmed on the chain and not revoked. */
export async function readOnChain(db: Db, chainId: number, hashes: readonly string[]): Promise<OnChain[]> {
  if (hashes.length === 0) return []
  const rows = await db
    .selectFrom('chain_transactions')
    .select(['subject', 'result', 'tx_hash', 'data', 'target', 'sender'])
    .where('chain_id', '=', chainId)
    .where('kind', '=', 'attest')
    .where('state', '=', 'confirmed')
    .where('revoked_at', 'is', null)
    .where('subject', 'in', hashes)
    .execute()
  return rows.map(({ subject, result, tx_hash, data, target, sender }) => ({
    hash: subject,
    uid: result!,
    txHash: tx_hash!,
    sink: sinks[data.slice(0, 10)],
    contract: target,
    attester: sender,
  }))
}

interface Posting {
  requestHash: string
  requestTxHash: string
  responseTxHash: string
  registry: string
  sentAt: number
}

/** Returns the validation requests that are confirmed together with their response. */
export async function readPostings(db: Db, chainId: number, requestHashes: readonly string[]): Promise<Posting[]> {
  if (requestHashes.length === 0) return []
  const rows = await db
    .selectFrom('chain_transactions')
    .select(['kind', 'subject', 'target', 'tx_hash', 'sent_at'])
    .where('chain_id', '=', chainId)
    .where('kind', 'in', ['validate', 'respond'])
    .where('state', '=', 'confirmed')
    .where('subject', 'in', requestHashes)
    .execute()
  return rows
    .filter(({ kind }) => kind === 'respond')
    .flatMap((response) => {
      const request = rows.find(({ kind, subject }) => kind === 'validate' && subject === response.subject)
      if (!request) return []
      const [requestTxHash, responseTxHash] = [request.tx_hash!, response.tx_hash!]
      const { subject: requestHash, target: registry, sent_at } = response
      return [{ requestHash, requestTxHash, responseTxHash, registry, sentAt: sent_at! }]
    })
}

/** Condition on rows of `chain_other_attestations`. */
export const isShown =
  ({ chainId, places, attesters }: Shown) =>
  (e: ExpressionBuilder<Schema, 'chain_other_attestations'>) =>
    e.and([
      e('chain_id', '=', chainId),
      e('attester', 'in', attesters.length > 0 ? attesters : ['']),
      e.or(places.map(({ contract, subject }) => e.and({ contract, subject }))),
    ])

/** Returns the attestations that have not expired, newest first. */
export function readOthers(db: Db, shown: Shown, now: number, limit: number): Promise<OtherAttestationsTable[]> {
  return db
    .selectFrom('chain_other_attestations')
    .selectAll()
    .where(isShown(shown))
    .where((e) => e.or([e('expires_at', 'is', null), e('expires_at', '>', now)]))
    .orderBy((e) => e.fn.coalesce('at', 'seen_at'), 'desc')
    .orderBy('uid', 'desc')
    .limit(limit)
    .execute()
}
