import type { Dialect } from '../database.ts'

const dayMs = 86_400_000
const hourMs = 3_600_000

/** Critical events and breaches, counted by type, instance and hour. */
export const problemCounts = ({ bigint, text }: Dialect['ddl']): string[] => [
  `create table problem_counts (
    by_service integer not null check (by_service in (0, 1)),
    severity ${text} not null check (severity in ('critical', 'breach')),
    hour ${bigint} not null,
    event_type ${text} not null,
    instance_id ${text} not null,
    count ${bigint} not null,
    first_at ${bigint} not null,
    last_at ${bigint} not null,
    last_seq ${bigint} not null,
    primary key (by_service, severity, hour, event_type, instance_id)
  )`,
  // The last day, so that an update hides no problem.
  `insert into problem_counts
    select by_service, severity, created_at - created_at % ${hourMs}, event_type, coalesce(instance_id, ''),
      count(*), min(created_at), max(created_at), max(seq)
    from events
    where severity in ('critical', 'breach') and severity <> 'info' and seq >= coalesce((
      select min(first_seq) from event_minutes where minute >= (select max(minute) from event_minutes) - ${dayMs}), 0)
    group by by_service, severity, created_at - created_at % ${hourMs}, event_type, coalesce(instance_id, '')`,
]
