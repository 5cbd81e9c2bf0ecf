import type { Dialect } from '../database.ts'

/** The outcome `told` becomes `sent`, and `least` of quiet hours `min_severity`. SQLite cannot change a check. */
export const plainWords = ({ bigint, text }: Dialect['ddl']): string[] => [
  `create table alert_outcomes (
    alert_seq ${bigint} not null,
    channel_id ${text} not null,
    outcome ${text} not null check (outcome in ('sent', 'joined', 'silenced', 'inhibited')),
    group_name ${text},
    message_id ${text},
    primary key (alert_seq, channel_id)
  )`,
  `insert into alert_outcomes (alert_seq, channel_id, outcome, group_name, message_id)
    select alert_seq, channel_id, case outcome when 'told' then 'sent' else outcome end, group_name, message_id
    from alert_deliveries`,
  `drop table alert_deliveries`,
  `alter table alert_outcomes rename to alert_deliveries`,
  `create index alert_deliveries_by_group on alert_deliveries (channel_id, group_name, alert_seq)
    where group_name is not null`,
  `create index alert_deliveries_joined on alert_deliveries (message_id, alert_seq) where outcome = 'joined'`,
  `update alert_channels set quiet_hours = replace(quiet_hours, '"least":', '"min_severity":')
    where quiet_hours is not null`,
]
