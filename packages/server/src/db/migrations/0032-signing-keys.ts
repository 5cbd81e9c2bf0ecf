import type { Dialect } from '../database.ts'

/** Key pairs that sign bundles and checkpoints. Old public keys are kept to verify old signatures. */
export const signingKeys = ({ bigint, text }: Dialect['ddl']): string[] => [
  `create table signing_keys (
    generation ${bigint} primary key, kid ${text} not null, public_key ${text} not null, salt ${text} not null,
    valid_from ${bigint} not null, valid_until ${bigint}
  )`,
]
