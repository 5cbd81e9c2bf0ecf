import type { Dialect } from '../database.ts'

/**
 * Baselines based on the tail of a metric's distribution. They start empty, because a mean and a deviation say nothing
 * about the tail. The table metric_baselines stays for processes of the previous version.
 */
export const baselines = ({ bigint, text, rewritten }: Dialect['ddl']): string[] => [
  `create table baselines (
    instance_id ${text} not null, metric ${text} not null,
    version ${bigint} not null, state ${text} not null,
    updated_at ${bigint} not null, silent_at ${bigint},
    primary key (instance_id, metric),
    constraint baseline_is_current check (version > 0)
  ) ${rewritten}`,
  'create index baselines_silent on baselines (silent_at) where silent_at is not null',
  `create table baseline_episodes (
    id ${text} primary key, instance_id ${text} not null, metric ${text} not null,
    severity ${text} not null, basis ${text} not null, peak double precision not null,
    begun_at ${bigint} not null, ended_at ${bigint}, outcome ${text}
  )`,
  'create index baseline_episodes_metric on baseline_episodes (instance_id, metric, begun_at)',
  'create index baseline_episodes_age on baseline_episodes (begun_at)',
]
