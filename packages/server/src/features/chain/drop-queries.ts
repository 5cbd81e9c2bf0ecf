import type { Database, Statement } from '../../db/database.ts'
import { type Account, isOf, isSentBy, type TransactionRow } from './chain-queries.ts'

export function readById({ db }: Database, account: Account, id: string) {
  return db
    .selectFrom('chain_transactions')
    .selectAll()
    .where('id', '=', id)
    .where(isSentBy(account))
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
  const { id, state, chain_id: chainId, sender: address, nonce } = row
  const isSender = isOf({ chainId, address })
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
    .where(isSender)
    .where('next_nonce', '=', nonce + 1)
  return [
    dialect.lockFound(db.selectFrom('chain_senders').select('epoch').where(isSender).compile()),
    ...statements,
    back.compile(),
  ]
}
