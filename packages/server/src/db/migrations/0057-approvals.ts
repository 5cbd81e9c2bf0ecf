import type { Dialect } from '../database.ts'

/** Calls that wait for operators, and allowances. */
export const approvals = ({ bigint, text, clustered, rewritten }: Dialect['ddl']): string[] => [
  `create table approvals (
    id ${text} primary key, instance_id ${text} not null, session_id ${text}, tool ${text} not null,
    args_sha256 ${text} not null, args ${text}, policy_id ${text} not null, policy_version ${bigint} not null,
    rule ${text}, why ${text}, needed ${bigint} not null, state ${text} not null, approved_by ${text} not null,
    asked ${bigint} not null, asked_by ${text} not null, requested_at ${bigint} not null, expires_at ${bigint} not null,
    decided_at ${bigint}, denied_by ${text}, reason ${text}, attempt ${text}, granted_at ${bigint},
    allowance_id ${text}, version ${bigint} not null
  ) ${rewritten}`,
  'create index approvals_of_instance on approvals (instance_id, id)',
  'create index approvals_by_call on approvals (instance_id, args_sha256)',
  'create index approvals_by_state on approvals (state, expires_at)',
  `create table approval_attempts (
    instance_id ${text} not null, attempt ${text} not null, approval_id ${text} not null,
    primary key (instance_id, attempt)
  ) ${clustered}`,
  'create index approval_attempts_of on approval_attempts (approval_id)',
  `create table allowances (
    id ${text} primary key, instance_id ${text} not null, tool ${text} not null, approval_id ${text} not null,
    created_by ${text} not null, reason ${text}, created_at ${bigint} not null, expires_at ${bigint} not null,
    max_calls ${bigint} not null, used ${bigint} not null, revoked_at ${bigint}
  ) ${rewritten}`,
  'create index allowances_of_tool on allowances (instance_id, tool)',
]
