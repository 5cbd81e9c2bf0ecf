import type { Dialect } from '../database.ts'

/** People who sign in at a provider, how the roles of their groups are, and their sessions. */
export const people = ({ bigint, text }: Dialect['ddl']): string[] => [
  `create table people (
    id ${text} primary key, issuer ${text} not null, subject ${text} not null, name ${text} not null, email ${text},
    role ${text}, role_by ${text}, groups ${text} not null, first_seen_at ${bigint} not null,
    signed_in_at ${bigint} not null, evaluated_at ${bigint} not null, unique (issuer, subject)
  )`,
  `create table role_mappings (position ${bigint} primary key, group_name ${text}, email ${text}, role ${text} not null)`,
  `create table sign_ins (state_hash ${text} primary key, expires_at ${bigint} not null)`,
  `create index sign_ins_by_end on sign_ins (expires_at)`,
  `alter table sessions add column device ${text}`,
  `alter table sessions add column address ${text}`,
  `alter table sessions add column authenticated_at ${bigint}`,
  `alter table sessions add column evaluated_at ${bigint}`,
  `alter table sessions add column due_at ${bigint}`,
  `alter table sessions add column sealed ${text}`,
  `alter table sessions add column provider_session ${text}`,
  `create index sessions_by_key on sessions (key_id)`,
  `create index sessions_by_due on sessions (due_at)`,
]
