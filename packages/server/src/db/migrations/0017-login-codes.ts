import type { Dialect } from '../database.ts'

/** Codes that open one browser session each. A key has at most one unused code. */
export const loginCodes = ({ bigint, text }: Dialect['ddl']): string[] => [
  `create table login_codes (
    key_id ${text} primary key, code_hash ${text} not null, expires_at ${bigint} not null
  )`,
]
