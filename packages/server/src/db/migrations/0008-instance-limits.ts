import type { Dialect } from '../database.ts'

/** Owners of instances, and limits on how many instances a key may register. */
export const instanceLimits = ({ bigint, text, rewritten, counted }: Dialect['ddl']): string[] => [
  `alter table instances add column owner ${text}`,
  `create index instances_suspended on instances (id) where suspended = 1`,
  `create table instance_counts (owner ${text} primary key, count ${bigint} not null) ${rewritten}`,
  `insert into instance_counts (owner, count) select '', count(*) from instances`,
  `insert into instance_counts (owner, count) select '-', count(*) from instances`,
  ...counted('instances', 'instance_counts'),
  `create table deleted_instances (
    id ${text} primary key, control_version ${bigint} not null, deleted_at ${bigint} not null
  )`,
  `alter table api_keys add column max_instances ${bigint}`,
  `alter table api_keys add column owner ${text}`,
]
