import type { Dialect } from '../database.ts'

/** Observed facts of each suspension. Of existing ones only the request and the acknowledgement are known. */
export const suspensions = ({ bigint, text, rewritten }: Dialect['ddl']): string[] => [
  `create table suspensions (
    instance_id ${text} not null, version ${bigint} not null,
    reason ${text} not null, actor ${text},
    rule_id ${text}, event_id ${text}, containment_id ${text},
    requested_at ${bigint} not null, stored_at ${bigint},
    published_at ${bigint}, published_by ${text},
    delivered_at ${bigint}, delivered_by ${text}, delivered_process ${text},
    acknowledged_at ${bigint}, acknowledged_by ${text}, can_acknowledge ${bigint} not null,
    silent_at ${bigint}, quiet_at ${bigint}, resumed_at ${bigint},
    first_breach_at ${bigint}, last_breach_at ${bigint}, breaches ${bigint} not null default 0,
    breach_reported_at ${bigint}, breaches_reported ${bigint} not null default 0,
    last_activity_at ${bigint}, checked_seq ${bigint},
    result_reported ${text}, look_at ${bigint},
    primary key (instance_id, version)
  ) ${rewritten}`,
  'create index suspensions_due on suspensions (look_at) where look_at is not null',
  'create index suspensions_open on suspensions (instance_id) where resumed_at is null',
  'create index suspensions_recent on suspensions (requested_at)',
  'create index suspensions_age on suspensions (resumed_at) where resumed_at is not null',
  'create index suspensions_containment on suspensions (containment_id) where containment_id is not null',
  `insert into suspensions
    (instance_id, version, reason, requested_at, acknowledged_at, can_acknowledge, result_reported, look_at)
    select id, control_version, coalesce(suspension_reason, ''), coalesce(control_changed_at, last_heartbeat_at),
      case when applied_version = control_version then applied_at end,
      case when applied_version is null then 0 else 1 end,
      case when kill_result_version = control_version then kill_result end,
      coalesce(control_changed_at, last_heartbeat_at)
    from instances where suspended = 1`,
]
