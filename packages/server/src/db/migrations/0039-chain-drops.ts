import type { Dialect } from '../database.ts'

/** Refused nonces, reports of unconfirmed transactions, and transactions that an operator dropped. */
export const chainDrops = ({ bigint }: Dialect['ddl']): string[] => [
  `alter table chain_senders add column refused_nonce ${bigint}`,
  `alter table chain_senders add column nonce_reported_at ${bigint}`,
  `alter table chain_transactions add column stuck_reported_at ${bigint}`,
  `alter table chain_transactions add column dropped_at ${bigint}`,
  `alter table chain_attempts add column is_empty ${bigint} not null default 0`,
]
