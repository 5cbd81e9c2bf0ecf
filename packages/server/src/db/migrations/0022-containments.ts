import type { Dialect } from '../database.ts'

/** Fleet operations, resumes waiting for a second operator, and tags that instances get from their key. */
export const containments = ({ bigint, text, rewritten }: Dialect['ddl']): string[] => [
  `create table containments (
    id ${text} primary key, action ${text} not null, selector ${text} not null, reason ${text} not null,
    actor ${text} not null, confirmed_by ${text}, two_person ${bigint} not null,
    requested ${bigint} not null, skipped ${bigint} not null default 0,
    requested_at ${bigint} not null, changed_at ${bigint}, completed_at ${bigint},
    worker ${text}, leased_until ${bigint} not null default 0,
    reported ${text}, look_at ${bigint} not null, counts ${text},
    constraint containment_action check (action in ('suspend', 'resume'))
  ) ${rewritten}`,
  'create index containments_open on containments (look_at) where counts is null',
  `create table containment_parts (
    containment_id ${text} not null, position ${bigint} not null, members ${text} not null,
    changed ${text}, done_at ${bigint},
    primary key (containment_id, position)
  )`,
  `create table resume_requests (
    target ${text} primary key, instance_id ${text}, selector ${text}, version ${bigint}, agents ${bigint} not null,
    requested_by ${text} not null, owner ${text} not null, requested_at ${bigint} not null, expires_at ${bigint} not null
  )`,
  `alter table api_keys add column tags ${text}`,
]
