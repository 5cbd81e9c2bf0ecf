import type { Dialect } from '../database.ts'

/** Recent starts and usual reporting gaps of each instance, and the brake of automatic suspensions. */
export const breaches = ({ bigint, text, rewritten }: Dialect['ddl']): string[] => [
  `alter table instances add column boots ${text}`,
  `alter table instances add column clone_count ${bigint} not null default 0`,
  `alter table instances add column clone_reported_at ${bigint}`,
  `alter table instances add column crash_loop_at ${bigint}`,
  `create table report_habits (
    instance_id ${text} primary key, judged_until ${bigint} not null, state ${text} not null, blind_at ${bigint}
  ) ${rewritten}`,
  `create table brake (
    id ${bigint} primary key, version ${bigint} not null, engaged_at ${bigint}, engaged_by_event ${text}
  )`,
  'insert into brake (id, version) values (1, 1)',
  `create table brake_refusals (
    instance_id ${text} primary key, count ${bigint} not null, event_id ${text} not null, last_at ${bigint} not null
  )`,
]
