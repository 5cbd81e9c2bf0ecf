import type { Dialect } from '../database.ts'

/** Policies of tool calls, and the version of the sets in which agents get them. */
export const policies = ({ bigint, text }: Dialect['ddl']): string[] => [
  `create table policies (
    id ${text} primary key, title ${text} not null, mode ${text} not null, version ${bigint} not null,
    text ${text} not null, format ${text} not null, document ${text} not null, bytes ${bigint} not null, file ${text},
    created_at ${bigint} not null, changed_at ${bigint} not null, changed_by ${text}
  )`,
  `create table policy_versions (
    policy_id ${text} not null, version ${bigint} not null, text ${text} not null, format ${text} not null,
    created_at ${bigint} not null, created_by ${text}, primary key (policy_id, version)
  )`,
  `insert into counters (name, value) values ('policy_set', 0)`,
]
