import type { Dialect } from '../database.ts'

/** Agents that others started, and suspensions that last as long as that of the parent. */
export const parents = ({ text }: Dialect['ddl']): string[] => [
  `alter table instances add column parent_id ${text}`,
  'create index instances_parent on instances (parent_id) where parent_id is not null',
  `alter table suspensions add column through_id ${text}`,
  'create index suspensions_through on suspensions (through_id) where through_id is not null and resumed_at is null',
]
