import { type ExpressionBuilder, sql } from 'kysely'
import type { Database, Db, Statement } from '../../db/database.ts'
import { claimLease, type Lease } from '../../db/lease.ts'
import type { ChainTransactionsTable } from '../../db/schema/chain.ts'
import type { Schema } from '../../db/schema.ts'
import type { Deps } from '../../deps.ts'

export type TransactionRow = ChainTransactionsTable
export type AttemptRow = Schema['chain_attempts']
type SenderRow = Schema['chain_senders']
type Identity = Schema['chain_identities']

export interface Account {
  chainId: number
  address: string
}

const keyOf = ({ chainId, address }: Account) => ({ chain_id: chainId, address }) as const

/** Condition on rows of `chain_senders`. */
export const isOf = (account: Account) => (e: ExpressionBuilder<Schema, 'chain_senders'>) => e.and(keyOf(account))
/** Condition on rows of `chain_transactions`. */
export const isSentBy =
  ({ chainId, address }: Account) =>
  (e: ExpressionBuilder<Schema, 'chain_transactions'>) =>
    e.and({ chain_id: chainId, sender: address })

export async function addSender(db: Db, account: Account): Promise<void> {
  const row: SenderRow = {
    ...keyOf(account),
    next_nonce: 0,
    epoch: 0,
    holder: null,
    leased_until: 0,
    next_at: 0,
    failing_since: null,
    last_error: null,
    reported_at: null,
    refused_nonce: null,
    nonce_reported_at: null,
  }
  await db
    .insertInto('chain_senders')
    .values(row)
    .onConflict((conflict) => conflict.columns(['chain_id', 'address']).doNothing())
    .execute()
}

export function readSender(db: Db, account: Account) {
  return db.selectFrom('chain_senders').selectAll().where(isOf(account)).executeTakeFirst()
}

/** Longer than a turn with a slow node. After a crash, other processes wait this long before they can send. */
const leaseMs = 300_000

/** Claims the account for this process. Undefined while another one has it or while the RPC is in its retry pause. */
export function claimAccount(deps: Pick<Deps, 'database' | 'clock'>, account: Account, holder: string) {
  const row = { table: 'chain_senders', key: keyOf(account), leaseMs } as const
  return claimLease(deps, row, holder, sql`next_at <= ${deps.clock.now()}`)
}

/** Fails the batch when the transaction's state has changed since it was read. */
function unchangedStatement({ db, dialect }: Database, row: Pick<TransactionRow, 'id' | 'state'>): Statement {
  const same = db.selectFrom('chain_transactions').select('id').where('id', '=', row.id).where('state', '=', row.state)
  return dialect.lockFound(same.compile())
}

/** Updates a transaction. Fails when its state has changed since it was read, or when the lease was lost. */
export async function changeHeld(
  database: Database,
  lease: Lease,
  row: Pick<TransactionRow, 'id' | 'state'>,
  changes: Partial<TransactionRow>,
): Promise<void> {
  const { db } = database
  await lease.batch([
    unchangedStatement(database, row),
    db.updateTable('chain_transactions').set(changes).where('id', '=', row.id).compile(),
  ])
}

/** Stores a signed transaction and advances the nonce. Call before sending. */
export async function storeAttempt(
  database: Database,
  lease: Lease,
  row: Pick<TransactionRow, 'id' | 'state'>,
  { attempt, changes, nextNonce }: { attempt: AttemptRow; changes: Partial<TransactionRow>; nextNonce: number },
): Promise<void> {
  const { db } = database
  await lease.batch([
    unchangedStatement(database, row),
    db.insertInto('chain_attempts').values(attempt).compile(),
    db.updateTable('chain_transactions').set(changes).where('id', '=', row.id).compile(),
    lease.change({ next_nonce: nextNonce, refused_nonce: null, nonce_reported_at: null }),
  ])
}

type NewTransaction = Pick<TransactionRow, 'id' | 'kind' | 'subject' | 'target' | 'data' | 'max_cost'>

const pendingRow = ({ chainId, address }: Account, row: NewTransaction, now: number): TransactionRow => ({
  ...row,
  chain_id: chainId,
  sender: address,
  state: 'pending',
  error: null,
  nonce: null,
  gas: null,
  cost: null,
  created_at: now,
  sent_at: null,
  next_at: now,
  tx_hash: null,
  block_number: null,
  block_hash: null,
  confirmed_at: null,
  watched: 0,
  replaced_block: null,
  result: null,
  checked_at: null,
  revoked_at: null,
  failure_reported_at: null,
  stuck_reported_at: null,
  dropped_at: null,
})

/** Queues a transaction unless one with the same kind and subject exists. */
export async function addTransaction(db: Db, account: Account, row: NewTransaction, now: number): Promise<void> {
  await db
    .insertInto('chain_transactions')
    .values(pendingRow(account, row, now))
    .onConflict((conflict) => conflict.columns(['chain_id', 'sender', 'kind', 'subject']).doNothing())
    .execute()
}

/** Returns the unsettled transactions of these kinds, in their order. */
export function readUnsettled(db: Db, account: Account, kinds: TransactionRow['kind'][]) {
  return db
    .selectFrom('chain_transactions')
    .selectAll()
    .where(isSentBy(account))
    .where('kind', 'in', kinds)
    .where('state', 'in', ['pending', 'sent'])
    .orderBy('created_at')
    .execute()
}

/**
 * Queues all transactions in this order, or none while one of their kinds is unsettled. Resolves with whether they were
 * queued.
 */
export function addAlone(db: Db, account: Account, rows: readonly NewTransaction[], now: number): Promise<boolean> {
  const kinds = rows.map(({ kind }) => kind)
  return db.transaction().execute(async (trx) => {
    // Serializes two simultaneous commands: the lock on the account's row makes the second wait until it can see the
    // first's transactions.
    await trx
      .updateTable('chain_senders')
      .set((e) => ({ epoch: e.ref('epoch') }))
      .where(isOf(account))
      .execute()
    if ((await readUnsettled(trx, account, kinds)).length > 0) return false
    const values = rows.map((row, index) => pendingRow(account, row, now + index))
    await trx.insertInto('chain_transactions').values(values).execute()
    return true
  })
}

/**
 * Returns unsettled transactions: sent, then pending, then confirmed ones that a reorganisation may still undo. The
 * watched (confirmed) ones have a separate limit, so a backlog of them cannot crowd out the others.
 */
export async function readOpen(db: Db, account: Account, limit: number): Promise<TransactionRow[]> {
  const some = (states: TransactionRow['state'][]) =>
    db
      .selectFrom('chain_transactions')
      .selectAll()
      .where(isSentBy(account))
      .where('state', 'in', states)
      .orderBy('state', 'desc')
      .orderBy('created_at')
      .orderBy('id')
      .limit(limit)
  const active = await some(['sent', 'pending']).execute()
  return [...active, ...(await some(['confirmed']).where('watched', '=', 1).execute())]
}

export function readTransaction(db: Db, account: Account, kind: TransactionRow['kind'], subject: string) {
  return db
    .selectFrom('chain_transactions')
    .selectAll()
    .where(isSentBy(account))
    .where('kind', '=', kind)
    .where('subject', '=', subject)
    .executeTakeFirst()
}

/** Newest first. */
export function readTransactions(db: Db, limit: number): Promise<TransactionRow[]> {
  return db.selectFrom('chain_transactions').selectAll().orderBy('created_at', 'desc').limit(limit).execute()
}

/** Newest first. All attempts of a transaction use the same nonce. */
export function readAttempts(db: Db, transactionId: string): Promise<AttemptRow[]> {
  return db
    .selectFrom('chain_attempts')
    .selectAll()
    .where('transaction_id', '=', transactionId)
    .orderBy('created_at', 'desc')
    .orderBy('hash')
    .execute()
}

/** Deletes a failed transaction, so that it can be queued again. */
export async function removeFailed(database: Database, row: TransactionRow): Promise<void> {
  const { db, dialect } = database
  const failed = db.selectFrom('chain_transactions').select('id').where('id', '=', row.id).where('state', '=', 'failed')
  await database.batch([
    dialect.lockFound(failed.compile()),
    db.deleteFrom('chain_attempts').where('transaction_id', '=', row.id).compile(),
    db.deleteFrom('chain_transactions').where('id', '=', row.id).compile(),
  ])
}

/**
 * Raises the confirmed cost of a transaction unless it changed or was settled since it was read, and ends the pause after
 * the error that asked for it.
 */
export async function raiseMaxCost({ db }: Database, account: Account, row: TransactionRow, cost: bigint) {
  await db
    .updateTable('chain_transactions')
    .set({ max_cost: String(cost) })
    .where('id', '=', row.id)
    .where('state', 'in', ['pending', 'sent'])
    .where('max_cost', '=', row.max_cost)
    .execute()
  await db.updateTable('chain_senders').set({ next_at: 0 }).where(isOf(account)).execute()
}

/** Total cost of transactions sent since `since`, in the chain's smallest unit. */
export async function readCosts(db: Db, account: Account, since: number): Promise<bigint> {
  const rows = await db
    .selectFrom('chain_transactions')
    .select('cost')
    .where(isSentBy(account))
    .where('sent_at', '>=', since)
    .execute()
  return rows.reduce((sum, { cost }) => sum + BigInt(cost ?? 0), 0n)
}

/** Returns confirmed attestations last checked before `before`. */
export function readUnchecked(db: Db, account: Account, before: number, limit: number) {
  return db
    .selectFrom('chain_transactions')
    .selectAll()
    .where(isSentBy(account))
    .where('kind', '=', 'attest')
    .where('state', '=', 'confirmed')
    .where('revoked_at', 'is', null)
    .where((e) => e.or([e('checked_at', 'is', null), e('checked_at', '<=', before)]))
    .orderBy('created_at', 'desc')
    .limit(limit)
    .execute()
}

export async function noteChecked(db: Db, id: string, now: number, isRevoked: boolean): Promise<void> {
  await db
    .updateTable('chain_transactions')
    .set({ checked_at: now, ...(isRevoked ? { revoked_at: now } : {}) })
    .where('id', '=', id)
    .execute()
}

export async function storeIdentity(db: Db, identity: Omit<Identity, 'id'>): Promise<void> {
  await db
    .insertInto('chain_identities')
    .values({ id: 1, ...identity })
    .onConflict((conflict) => conflict.column('id').doUpdateSet(identity))
    .execute()
}
