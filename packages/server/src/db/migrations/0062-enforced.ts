import type { Dialect } from '../database.ts'

/** What something outside an agent holds while it is suspended. */
export const enforced = ({ bigint, text }: Dialect['ddl']): string[] => [
  `alter table suspensions add column enforced_at ${bigint}`,
  `alter table suspensions add column enforced_by ${text}`,
  `alter table suspensions add column held_processes ${bigint}`,
  `alter table suspensions add column left_processes ${bigint}`,
]
