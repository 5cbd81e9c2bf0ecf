import type { Dialect } from '../database.ts'

/** Calls of agents that only one of two witnesses reported. */
export const reportMismatches = ({ bigint, text }: Dialect['ddl']): string[] => [
  `create table report_mismatches (
    instance_id ${text} not null, missing ${text} not null, severity ${text} not null, since ${bigint} not null,
    calls ${bigint} not null, tools ${text} not null, reported_at ${bigint} not null, ended_at ${bigint},
    primary key (instance_id, missing)
  )`,
]
