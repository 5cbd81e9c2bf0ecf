import type { Dialect } from '../database.ts'

/** Key pairs that sign bundles and checkpoints: what verifies old signatures must not get lost. */
export const signingKeys = ({ bigint, text }: Dialect['ddl']): string[] => [
  `create table signing_keys (
    generation ${bigint} primary key, kid ${text} not null, public_key ${text} not null, salt ${text} not null,
    valid_from ${bigint} not null, valid_until ${bigint}
  )`,
]
