import type { Dialect } from '../database.ts'

/** Logins of command lines that wait for a person, and the sessions that follow. */
export const commandLogins = ({ bigint, text }: Dialect['ddl']): string[] => [
  `create table command_logins (
    challenge ${text} primary key, code_hash ${text} not null unique, host ${text} not null, address ${text},
    port ${bigint}, state ${text}, confirm ${bigint} not null, answer_hash ${text}, allowed_at ${bigint},
    created_at ${bigint} not null, expires_at ${bigint} not null
  )`,
  `create index command_logins_by_end on command_logins (expires_at)`,
  `alter table sessions add column host ${text}`,
]
