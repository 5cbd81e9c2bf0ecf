import type { Dialect } from '../database.ts'

/** Passkeys of the local admin. Removed ones stay, because the audit log names them. */
export const passkeys = ({ bigint, text }: Dialect['ddl']): string[] => [
  `create table passkeys (
    id ${text} primary key, key_id ${text} not null, name ${text} not null, credential_id ${text} not null unique,
    public_key ${text} not null, counter ${bigint} not null, rp_id ${text} not null, created_at ${bigint} not null,
    last_used_at ${bigint}, removed_at ${bigint}
  )`,
]
