import type { Dialect } from '../database.ts'

/** Separate outbox positions and messages for the service's own alerts, and counts of alerts over the limit. */
export const alertLanes = ({ bigint, text }: Dialect['ddl']): string[] => [
  // Null until the channel is first planned; until then both positions are the same.
  `alter table alert_channels add column own_planned_seq ${bigint}`,
  `create index alerts_of_service on alerts (seq) where by_service = 1`,
  `alter table alert_messages add column lane ${text} not null default 'reported' check (lane in ('own', 'reported'))`,
  `drop index alert_messages_pending`,
  `create index alert_messages_pending on alert_messages (channel_id, lane, due_at) where state = 'pending'`,
  `create table alert_overflow (
    minute ${bigint} not null,
    by_service integer not null check (by_service in (0, 1)),
    instance_id ${text} not null,
    event_type ${text} not null,
    severity ${text} not null check (severity in ('info', 'warning', 'critical', 'breach')),
    count ${bigint} not null,
    primary key (minute, by_service, instance_id, event_type, severity)
  )`,
]
