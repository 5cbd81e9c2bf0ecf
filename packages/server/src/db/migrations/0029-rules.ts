import type { Dialect } from '../database.ts'

/** Rules, their firings, and the runner's lease. The runner starts after the events that are already stored. */
export const rules = ({ bigint, text, clustered, rewritten }: Dialect['ddl']): string[] => [
  `create table rules (
    id ${text} primary key, title ${text} not null, severity ${text} not null, mode ${text} not null,
    version ${bigint} not null, text ${text} not null, format ${text} not null, file ${text}, responses ${text} not null,
    created_at ${bigint} not null, changed_at ${bigint} not null, changed_by ${text},
    constraint rule_mode check (mode in ('observe', 'alert', 'enforce'))
  )`,
  `create table rule_versions (
    rule_id ${text} not null, version ${bigint} not null, text ${text} not null, format ${text} not null,
    created_at ${bigint} not null, created_by ${text},
    primary key (rule_id, version)
  )`,
  `create table rule_firings (
    rule_id ${text} not null, seq ${bigint} not null, version ${bigint} not null, mode ${text} not null,
    group_key ${text} not null, instance_id ${text}, event_id ${text} not null, fired_at ${bigint} not null,
    count ${bigint} not null, events ${text} not null, matched_id ${text} not null, created_at ${bigint} not null,
    primary key (rule_id, seq)
  )`,
  'create index rule_firings_time on rule_firings (rule_id, fired_at)',
  'create index rule_firings_age on rule_firings (created_at)',
  `create table rule_hours (
    rule_id ${text} not null, hour ${bigint} not null, count ${bigint} not null,
    primary key (rule_id, hour)
  ) ${rewritten}`,
  `create table rule_responses (
    rule_id ${text} not null, seq ${bigint} not null, position ${bigint} not null,
    action ${text} not null, target ${text}, duration_ms ${bigint},
    state ${text} not null, detail ${text}, created_at ${bigint} not null,
    primary key (rule_id, seq, position)
  ) ${rewritten}`,
  `create index rule_responses_pending on rule_responses (created_at) where state = 'pending'`,
  `create table rule_suspensions (
    instance_id ${text} not null, version ${bigint} not null, rule_id ${text} not null, seq ${bigint} not null,
    ends_at ${bigint} not null, ended_at ${bigint},
    primary key (instance_id, version)
  )`,
  'create index rule_suspensions_due on rule_suspensions (ends_at) where ended_at is null',
  `create table rule_values (
    rule_id ${text} not null, basis ${text} not null, group_key ${text} not null, value ${text} not null,
    seen_at ${bigint} not null, new_seq ${bigint} not null,
    primary key (rule_id, basis, group_key, value)
  ) ${clustered}`,
  `create table rule_starts (rule_id ${text} primary key, basis ${text} not null, after_seq ${bigint} not null)`,
  `create table rule_runner (
    id ${bigint} primary key, epoch ${bigint} not null, holder ${text}, leased_until ${bigint} not null,
    seq ${bigint} not null
  ) ${rewritten}`,
  `insert into rule_runner (id, epoch, leased_until, seq)
    select 1, 0, 0, value from counters where name = 'event_seq'`,
]
