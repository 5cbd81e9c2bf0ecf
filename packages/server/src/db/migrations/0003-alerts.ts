import type { Dialect } from '../database.ts'

const severities = `('info', 'warning', 'critical', 'breach')`

/** Alerts: an outbox filled in the transaction of the event, the channels that read it, and the sent messages. */
export const alerts = ({ bigint, text, rewritten }: Dialect['ddl']): string[] => [
  `insert into counters (name, value) values ('alert_seq', 0), ('alert_config', 0)`,
  `alter table instances add column kill_result_version ${bigint}`,
  `alter table instances add column kill_result ${text} check (kill_result in ('unconfirmed', 'confirmed'))`,
  // Do not report the results of kills from before this migration.
  `update instances set kill_result_version = control_version where suspended = 1`,

  `create table alerts (
    seq ${bigint} primary key,
    id ${text} not null,
    created_at ${bigint} not null,
    severity ${text} not null check (severity in ${severities}),
    event_type ${text} not null,
    source ${text} not null,
    description ${text} not null,
    instance_id ${text},
    session_id ${text},
    event_seq ${bigint},
    by_service integer not null check (by_service in (0, 1)),
    status ${text} not null check (status in ('open', 'acknowledged', 'resolved')),
    verdict ${text} check (verdict in ('true_positive', 'false_positive')),
    assignee ${text},
    note ${text},
    changed_at ${bigint}
  )`,
  `create index alerts_by_id on alerts (id)`,
  // Alerts that may need a person. Without info, because it may include every tool call and would make the index large.
  `create index alerts_unresolved on alerts (event_type, instance_id, by_service, seq)
    where status <> 'resolved' and severity <> 'info'`,

  `create table alert_channels (
    id ${text} primary key,
    name ${text} not null,
    type ${text} not null,
    managed_by ${text} not null check (managed_by in ('api', 'environment')),
    sealed ${text},
    destination ${text} not null,
    min_severity ${text} not null check (min_severity in ${severities}),
    enabled integer not null check (enabled in (0, 1)),
    send_resolved integer not null check (send_resolved in (0, 1)),
    daily_check integer not null check (daily_check in (0, 1)),
    max_per_minute integer not null,
    quiet_hours ${text},
    created_at ${bigint} not null,
    planned_seq ${bigint} not null,
    failures integer not null default 0,
    resume_at ${bigint},
    failing_since ${bigint},
    last_delivered_at ${bigint},
    last_error ${text},
    last_error_at ${bigint},
    checked_at ${bigint},
    check ((managed_by = 'api') = (sealed is not null))
  ) ${rewritten}`,
  `create table alert_routes (
    id ${text} primary key,
    name ${text} not null,
    match ${text} not null,
    channels ${text} not null,
    created_at ${bigint} not null
  )`,
  `create table silences (
    id ${text} primary key,
    match ${text} not null,
    reason ${text} not null,
    created_by ${text} not null,
    created_at ${bigint} not null,
    ends_at ${bigint} not null
  )`,

  `create table alert_groups (
    channel_id ${text} not null,
    name ${text} not null,
    severity ${text} not null check (severity in ${severities}),
    waiting ${bigint} not null,
    due_at ${bigint},
    told_at ${bigint},
    messages integer not null,
    reminders integer not null,
    state ${text} not null check (state in ('open', 'acknowledged', 'resolved')),
    message_id ${text},
    primary key (channel_id, name)
  ) ${rewritten}`,
  `create index alert_groups_due on alert_groups (due_at) where due_at is not null`,

  `create table alert_messages (
    id ${text} primary key,
    channel_id ${text} not null,
    kind ${text} not null check (kind in ('alert', 'digest', 'reminder', 'resolved', 'test', 'check')),
    title ${text} not null,
    severity ${text} not null check (severity in ${severities}),
    content ${text} not null,
    state ${text} not null check (state in ('pending', 'delivered', 'dead')),
    created_at ${bigint} not null,
    due_at ${bigint} not null,
    attempts integer not null default 0,
    leased_until ${bigint},
    lease_owner ${text},
    last_status integer,
    last_answer ${text},
    last_error ${text},
    delivered_at ${bigint}
  ) ${rewritten}`,
  `create index alert_messages_by_channel on alert_messages (channel_id, created_at)`,
  `create index alert_messages_pending on alert_messages (channel_id, due_at) where state = 'pending'`,
  `create index alert_messages_dead on alert_messages (channel_id, id) where state = 'dead'`,

  `create table alert_deliveries (
    alert_seq ${bigint} not null,
    channel_id ${text} not null,
    outcome ${text} not null check (outcome in ('told', 'joined', 'silenced', 'inhibited')),
    group_name ${text},
    message_id ${text},
    primary key (alert_seq, channel_id)
  )`,
  `create index alert_deliveries_by_group on alert_deliveries (channel_id, group_name, alert_seq)
    where group_name is not null`,
  `create index alert_deliveries_joined on alert_deliveries (message_id, alert_seq) where outcome = 'joined'`,
]
