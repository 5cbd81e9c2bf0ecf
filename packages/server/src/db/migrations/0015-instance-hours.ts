import type { Dialect } from '../database.ts'

/** Activity counts of each instance per five minutes. */
export const instanceHours = ({ bigint, text, clustered, rewritten }: Dialect['ddl']): string[] => [
  `create table instance_hours (
    instance_id ${text} not null, hour ${bigint} not null, writer ${text} not null, counts ${text} not null,
    primary key (instance_id, hour, writer)
  ) ${clustered} ${rewritten}`,
  'create index instance_hours_hour on instance_hours (hour)',
]
