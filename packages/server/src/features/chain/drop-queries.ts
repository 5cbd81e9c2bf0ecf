import type { Database, Statement } from '../../db/database.ts'
import type { Account, TransactionRow } from './chain-queries.ts'

export function readById({ db }: Database, { chainId, address }: Account, id: string) {
  return db
    .selectFrom('chain_transactions')
    .selectAll()
    .where('id', '=', id)
    .where('chain_id', '=', chainId)
    .where('sender', '=', address)
    .executeTakeFirst()
}

/**
 * Changes a transaction that no attempt was added to and no block was found for since it was read. With
 * `nextNonce`, the account's row is changed as well, and locked first, as by the process that sends.
 */
export function dropStatements(
  { db, dialect }: Database,
  row: TransactionRow,
  changes: Partial<TransactionRow>,
  nextNonce?: number,
): Statement[] {
  const { id, state, chain_id, sender, nonce } = row
  const account = db.selectFrom('chain_senders').select('epoch')
  const same = db
    .selectFrom('chain_transactions')
    .select('id')
    .where('id', '=', id)
    .where('state', '=', state)
    .where('dropped_at', 'is', null)
    .where('block_hash', 'is', null)
  const statements = [
    dialect.lockFound(same.compile()),
    db.updateTable('chain_transactions').set(changes).where('id', '=', id).compile(),
  ]
  if (nextNonce === undefined || nonce === null) return statements
  const back = db
    .updateTable('chain_senders')
    .set({ next_nonce: nextNonce })
    .where('chain_id', '=', chain_id)
    .where('address', '=', sender)
    .where('next_nonce', '=', nonce + 1)
  return [
    dialect.lockFound(account.where('chain_id', '=', chain_id).where('address', '=', sender).compile()),
    ...statements,
    back.compile(),
  ]
}
