import type { Dialect } from '../database.ts'

/** Open control streams by process, and drills that check whether agents respond over them. */
export const drills = ({ bigint, text, rewritten }: Dialect['ddl']): string[] => [
  `create table stream_processes (
    id ${text} primary key, started_at ${bigint} not null, seen_at ${bigint} not null
  ) ${rewritten}`,
  `create table control_streams (
    process ${text} not null, instance_id ${text} not null,
    understands ${text} not null,
    primary key (process, instance_id)
  ) ${rewritten}`,
  'create index control_streams_instance on control_streams (instance_id)',
  `alter table instances add column last_proven_at ${bigint}`,
  `alter table instances add column drills_since ${bigint}`,
  `alter table instances add column drill_overdue_at ${bigint}`,
  `alter table instances add column drill_warned_at ${bigint}`,
  `create table drills (
    id ${text} primary key, actor ${text} not null, selector ${text} not null, selected ${bigint} not null,
    requested_at ${bigint} not null, ready_at ${bigint}, completed_at ${bigint}, report ${text}
  )`,
  'create index drills_running on drills (requested_at) where completed_at is null',
  `create table drill_asks (
    drill_id ${text} not null, instance_id ${text} not null,
    nonce ${text}, asked_at ${bigint}, answered_at ${bigint}, reason ${text},
    primary key (drill_id, instance_id)
  ) ${rewritten}`,
  'create unique index drill_asks_nonce on drill_asks (nonce)',
  'create index drill_asks_open on drill_asks (drill_id, instance_id) where asked_at is null and reason is null',
]
