import type { Db, Trx } from '../../db/database.ts'
import { type Account, isOf, isSentBy, readSender, type TransactionRow } from './chain-queries.ts'

/** Marks unreported failures as reported and returns them. The caller reports them in the same transaction. */
export function takeFailures(trx: Trx, now: number): Promise<TransactionRow[]> {
  return trx
    .updateTable('chain_transactions')
    .set({ failure_reported_at: now })
    .where('state', '=', 'failed')
    .where('failure_reported_at', 'is', null)
    .returningAll()
    .execute()
}

/**
 * Marks the account as reported and returns it if its RPC has been failing since `since` or longer. Each outage is
 * returned once.
 */
export function takeFailing(trx: Trx, account: Account, now: number, since: number) {
  return trx
    .updateTable('chain_senders')
    .set({ reported_at: now })
    .where(isOf(account))
    .where('failing_since', '<=', since)
    .where('reported_at', 'is', null)
    .returningAll()
    .executeTakeFirst()
}

/** Marks transactions that are unconfirmed since `since` or longer as reported, and returns them. */
export function takeStuck(trx: Trx, account: Account, now: number, since: number) {
  return trx
    .updateTable('chain_transactions')
    .set({ stuck_reported_at: now })
    .where(isSentBy(account))
    .where('state', '=', 'sent')
    .where((e) => e(e.fn.coalesce('dropped_at', 'sent_at'), '<=', since))
    .where('stuck_reported_at', 'is', null)
    .returningAll()
    .execute()
}

/** Marks a refused nonce as reported and returns the account. */
export function takeRefusedNonce(trx: Trx, account: Account, now: number) {
  return trx
    .updateTable('chain_senders')
    .set({ nonce_reported_at: now })
    .where(isOf(account))
    .where('refused_nonce', 'is not', null)
    .where('nonce_reported_at', 'is', null)
    .returningAll()
    .executeTakeFirst()
}

/** Whether there may be something to report. */
export async function hasFailures(db: Db, account: Account, since: number): Promise<boolean> {
  const found = await db
    .selectFrom('chain_transactions')
    .select('id')
    .where((e) =>
      e.or([
        e.and([e('state', '=', 'failed'), e('failure_reported_at', 'is', null)]),
        e.and([
          e('state', '=', 'sent'),
          e('sender', '=', account.address),
          e('sent_at', '<=', since),
          e('stuck_reported_at', 'is', null),
        ]),
      ]),
    )
    .limit(1)
    .executeTakeFirst()
  const sender = await readSender(db, account)
  if (found !== undefined || !sender) return found !== undefined
  const isFailing = sender.reported_at === null && (sender.failing_since ?? Infinity) <= since
  return isFailing || (sender.refused_nonce !== null && sender.nonce_reported_at === null)
}
