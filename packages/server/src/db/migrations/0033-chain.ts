import type { Dialect } from '../database.ts'

/** Transactions of the wallet, and the on-chain identity. */
export const chain = ({ bigint, text, rewritten }: Dialect['ddl']): string[] => [
  `create table chain_senders (
    chain_id ${bigint} not null, address ${text} not null, next_nonce ${bigint} not null, epoch ${bigint} not null,
    holder ${text}, leased_until ${bigint} not null, next_at ${bigint} not null, failing_since ${bigint},
    last_error ${text}, reported_at ${bigint},
    primary key (chain_id, address)
  ) ${rewritten}`,
  `create table chain_transactions (
    id ${text} primary key, chain_id ${bigint} not null, sender ${text} not null, kind ${text} not null,
    subject ${text} not null, target ${text} not null, data ${text} not null, state ${text} not null, error ${text},
    nonce ${bigint}, gas ${bigint}, cost ${text}, created_at ${bigint} not null, sent_at ${bigint},
    next_at ${bigint} not null, tx_hash ${text}, block_number ${bigint}, block_hash ${text}, confirmed_at ${bigint},
    watched ${bigint} not null, replaced_block ${bigint}, result ${text}, checked_at ${bigint}, revoked_at ${bigint},
    failure_reported_at ${bigint},
    constraint chain_state check (state in ('pending', 'sent', 'confirmed', 'failed'))
  )`,
  'create unique index chain_transactions_once on chain_transactions (chain_id, sender, kind, subject)',
  `create unique index chain_transactions_nonce on chain_transactions (chain_id, sender, nonce)`,
  `create table chain_attempts (
    hash ${text} primary key, transaction_id ${text} not null, raw ${text} not null, max_fee ${text} not null,
    max_tip ${text} not null, created_at ${bigint} not null
  )`,
  'create index chain_attempts_transaction on chain_attempts (transaction_id)',
  `create table chain_identities (
    id ${bigint} primary key, chain_id ${bigint} not null, registry ${text} not null, agent_id ${text} not null,
    status ${text} not null, wallet ${text}, register_tx_hash ${text}, checked_at ${bigint} not null
  )`,
]
