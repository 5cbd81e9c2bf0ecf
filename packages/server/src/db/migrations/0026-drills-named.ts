import type { Dialect } from '../database.ts'

/** Which agents a warning about unanswered drills named: an answer ends it for these one by one. */
export const drillsNamed = ({ bigint }: Dialect['ddl']): string[] => [
  `alter table instances add column drill_named_at ${bigint}`,
]
