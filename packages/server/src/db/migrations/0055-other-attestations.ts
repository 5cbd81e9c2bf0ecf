import type { Dialect } from '../database.ts'

/** Attestations by others about this deployment, and how far they are read. */
export const otherAttestations = ({ bigint, text, rewritten }: Dialect['ddl']): string[] => [
  `create table chain_attesters (
    attester ${text} primary key, scope ${text} not null, low ${bigint} not null, high ${bigint} not null,
    floor ${bigint} not null, checked_at ${bigint} not null, next_at ${bigint} not null
  ) ${rewritten}`,
  `create table chain_other_attestations (
    chain_id ${bigint} not null, sink ${text} not null, contract ${text} not null, subject ${text} not null,
    attester ${text} not null, uid ${text} not null, at ${bigint}, expires_at ${bigint}, seen_at ${bigint} not null,
    tx_hash ${text}, schema ${text}, hash ${text}, namespace ${text}, tag ${text}, period ${text}, value ${text},
    decimals ${bigint},
    primary key (chain_id, contract, subject, attester, uid)
  )`,
]
