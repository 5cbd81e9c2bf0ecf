import { eventTypes } from '@wardline/contract'
import { hourMs } from '../../clock.ts'
import type { Deps } from '../../deps.ts'
import type { Ingest } from '../events/ingest.ts'
import type { OwnEvent } from '../events/new-event.ts'
import type { Account } from './chain-queries.ts'
import { hasFailures, takeFailing, takeFailures, takeRefusedNonce, takeStuck } from './report-queries.ts'

/** Short outages of the RPC node and transactions that wait for lower fees are not reported. */
const reportAfterMs = hourMs

const warning = (event: Pick<OwnEvent, 'event_type' | 'description' | 'metadata'>): OwnEvent => ({
  severity: 'warning',
  ...event,
})

/** Stores events about the account, each in the transaction that marks it as reported. */
export async function reportChain(
  { database: { db }, clock }: Pick<Deps, 'database' | 'clock'>,
  ingest: Pick<Ingest, 'own' | 'storeWithin'>,
  account: Account,
): Promise<void> {
  const now = clock.now()
  const since = now - reportAfterMs
  if (!(await hasFailures(db, account, since))) return
  const publish = await db.transaction().execute(async (trx) => {
    const failed = await takeFailures(trx, now)
    const stuck = await takeStuck(trx, account, now, since)
    const refused = await takeRefusedNonce(trx, account, now)
    const failing = await takeFailing(trx, account, now, since)
    const events = [
      ...failed.map(({ id, kind, error, tx_hash }) =>
        warning({
          event_type: eventTypes.chainTransactionFailed,
          description: `A transaction (${kind}) was given up: ${error}`,
          metadata: { id, kind, tx_hash },
        }),
      ),
      ...stuck.map(({ id, kind, nonce, dropped_at }) =>
        warning({
          event_type: eventTypes.chainTransactionStuck,
          description:
            dropped_at === null
              ? `A transaction (${kind}) is unconfirmed for an hour, and the next ones wait for it; wardline chain drop ${id} ends it`
              : `The empty transaction that replaces a dropped one (${kind}) is unconfirmed for an hour: raise TRUST_MAX_FEE_GWEI, or check the node`,
          metadata: { id, kind, nonce },
        }),
      ),
    ]
    if (refused)
      events.push(
        warning({
          event_type: eventTypes.chainNonceRefused,
          description: `The node counts ${refused.refused_nonce} transactions of the wallet, this service ${refused.next_nonce}: nothing is signed until they agree, or TRUST_WALLET_NONCE confirms the count`,
          metadata: { node: Number(refused.refused_nonce), service: Number(refused.next_nonce) },
        }),
      )
    if (failing)
      events.push(
        warning({
          event_type: eventTypes.chainUnavailable,
          description: `Transactions have waited for an hour: ${failing.last_error}`,
        }),
      )
    return events.length > 0
      ? ingest.storeWithin(
          trx,
          events.map((event) => ingest.own(event)),
        )
      : () => {}
  })
  publish()
}
