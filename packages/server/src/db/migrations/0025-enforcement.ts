import type { Dialect } from '../database.ts'

/** Calls to enforcement points, the operator's own controls outside the agents. */
export const enforcement = ({ bigint, text, rewritten }: Dialect['ddl']): string[] => [
  `create table enforcement_calls (
    instance_id ${text} not null, version ${bigint} not null, point ${text} not null,
    id ${text} not null, action ${text} not null, reason ${text}, containment_id ${text},
    agent_tags ${text}, operator_tags ${text}, requested_at ${bigint} not null,
    attempts ${bigint} not null default 0, next_at ${bigint} not null,
    leased_until ${bigint} not null default 0, lease_owner ${text},
    attempted_at ${bigint}, last_status ${bigint}, last_error ${text},
    confirmed_at ${bigint}, failed_at ${bigint}, failure_reported_at ${bigint}, superseded_at ${bigint},
    primary key (instance_id, version, point),
    constraint enforcement_action check (action in ('suspend', 'resume'))
  ) ${rewritten}`,
  'create unique index enforcement_calls_id on enforcement_calls (id)',
  `create index enforcement_calls_due on enforcement_calls (point, next_at)
    where confirmed_at is null and failed_at is null and superseded_at is null`,
  `create index enforcement_calls_unreported on enforcement_calls (failed_at)
    where failed_at is not null and failure_reported_at is null`,
  'create index enforcement_calls_failed on enforcement_calls (point) where failed_at is not null and confirmed_at is null',
  'create index enforcement_calls_attempted on enforcement_calls (point, attempted_at) where attempted_at is not null',
  'create index enforcement_calls_containment on enforcement_calls (containment_id) where containment_id is not null',
  'create index enforcement_calls_age on enforcement_calls (requested_at)',
]
