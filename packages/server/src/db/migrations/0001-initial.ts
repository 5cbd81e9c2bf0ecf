import type { Dialect } from '../database.ts'

const severities = `('info', 'warning', 'critical', 'breach')`
const classes = `('none', 'injection', 'blocked')`

/** The first schema. Statements run in order, in one transaction. */
export const initial = ({ bigint, text, clustered, rewritten, daily, appendOnly }: Dialect['ddl']): string[] => [
  `create table counters (name ${text} primary key, value ${bigint} not null)`,
  `insert into counters (name, value) values ('event_seq', 0), ('indexed_seq', 0)`,
  `create table facts (name ${text} primary key, value ${text} not null)`,
  `create table job_runs (name ${text} primary key, last_run_at ${bigint} not null)`,

  // Columns read by counts and filters come before the long ones.
  `create table events (
    seq ${bigint} not null,
    created_at ${bigint} not null,
    severity ${text} not null check (severity in ${severities}),
    class ${text} not null check (class in ${classes}),
    tool ${text},
    source ${text} not null,
    event_type ${text} not null,
    instance_id ${text},
    session_id ${text},
    ip_address ${text},
    id ${text} not null,
    description ${text} not null,
    metadata ${text},
    primary key (${daily.key})
  ) ${daily.storage}`,
  // Few distinct values, so new entries touch few pages and the index is cheap to maintain on every insert.
  `create index events_by_severity on events (severity, seq) where severity <> 'info'`,
  // Replaces indexes by instance, session and type. A job fills it shortly after, many rows at a time. A real index
  // would write a page or two per event, more than the rest of its commit.
  `create table event_refs (
    kind ${text} not null check (kind in ('instance', 'session', 'type')),
    value ${text} not null,
    seq ${bigint} not null,
    primary key (kind, value, seq)
  ) ${clustered}`,

  `create table event_minutes (minute ${bigint} primary key, first_seq ${bigint} not null, last_seq ${bigint} not null)`,
  `create table event_counts (
    unit ${text} not null check (unit in ('minute', 'hour')),
    severity ${text} not null check (severity in ${severities}),
    class ${text} not null check (class in ${classes}),
    bucket ${bigint} not null,
    count ${bigint} not null,
    primary key (unit, severity, class, bucket)
  )`,
  `create table tool_counts (
    tool ${text} not null, minute ${bigint} not null, count ${bigint} not null,
    primary key (tool, minute)
  )`,
  `create table idempotency_keys (
    caller ${text} not null, key ${text} not null, event_id ${text} not null, created_at ${bigint} not null,
    primary key (caller, key)
  )`,
  `create index idempotency_keys_by_age on idempotency_keys (created_at)`,

  `create table instances (
    id ${text} primary key,
    name ${text} not null,
    agent_type ${text},
    version ${text},
    fail_mode ${text} check (fail_mode in ('open', 'closed')),
    boot_id ${text},
    first_seen_at ${bigint} not null,
    last_heartbeat_at ${bigint} not null,
    liveness ${text} not null default 'online' check (liveness in ('online', 'offline')),
    suspended integer not null default 0 check (suspended in (0, 1)),
    suspension_reason ${text},
    control_version ${bigint} not null default 0,
    control_changed_at ${bigint},
    applied_version ${bigint},
    applied_at ${bigint},
    activity_reported_version ${bigint},
    check ((suspended = 1) = (suspension_reason is not null))
  ) ${rewritten}`,

  `create table audit_head (id integer primary key check (id = 1), seq ${bigint} not null, hash ${text} not null)`,
  `insert into audit_head (id, seq, hash) values (1, 0, '${'0'.repeat(64)}')`,
  `create table audit_log (
    seq ${bigint} primary key,
    at ${bigint} not null,
    actor ${text} not null,
    scope ${text},
    ip ${text},
    action ${text} not null,
    target ${text},
    before ${text},
    after ${text},
    reason ${text},
    request_id ${text},
    prev_hash ${text} not null,
    hash ${text} not null
  )`,
  ...appendOnly('audit_log'),

  `create table honeypots (
    id ${text} primary key,
    instance_id ${text} not null,
    type ${text} not null check (type in ('api_key', 'file_path')),
    key_type ${text},
    path ${text},
    is_pattern integer not null check (is_pattern in (0, 1)),
    label ${text},
    created_at ${bigint} not null,
    deleted_at ${bigint},
    check ((type = 'api_key' and key_type is not null and path is null)
      or (type = 'file_path' and path is not null and key_type is null))
  )`,
  `create index honeypots_by_instance on honeypots (instance_id)`,
  `create index honeypots_with_pattern on honeypots (id) where is_pattern = 1`,
  `create table honeypot_fingerprints (
    digest ${text} not null, honeypot_id ${text} not null,
    primary key (digest, honeypot_id)
  )`,
  `create index honeypot_fingerprints_by_honeypot on honeypot_fingerprints (honeypot_id)`,
  `create table honeypot_hits (
    id ${text} primary key,
    honeypot_id ${text} not null,
    at ${bigint} not null,
    reporter ${text},
    key_id ${text} not null,
    tool ${text},
    ip_address ${text},
    event_id ${text} not null
  )`,
  `create index honeypot_hits_by_honeypot on honeypot_hits (honeypot_id, at)`,

  `create table api_keys (
    id ${text} primary key,
    scope ${text} not null check (scope in ('agent', 'viewer', 'operator', 'admin')),
    name ${text} not null,
    instances ${text} not null,
    secret_hash ${text} not null,
    created_at ${bigint} not null,
    expires_at ${bigint},
    revoked_at ${bigint},
    last_used_at ${bigint}
  )`,
  `create table sessions (
    token_hash ${text} primary key,
    key_id ${text} not null,
    created_at ${bigint} not null,
    expires_at ${bigint} not null,
    last_used_at ${bigint} not null
  )`,

  `create table metric_baselines (
    instance_id ${text} not null, metric ${text} not null,
    samples ${bigint} not null, mean double precision not null, m2 double precision not null,
    primary key (instance_id, metric)
  )`,
  `create table attestations (
    namespace ${text} not null,
    period ${text} not null,
    type ${text} not null,
    title ${text} not null,
    summary ${text} not null,
    tag ${text} not null,
    score integer not null,
    at ${bigint} not null,
    hash ${text} not null,
    primary key (period, tag)
  )`,
]
