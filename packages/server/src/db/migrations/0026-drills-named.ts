import type { Dialect } from '../database.ts'

/** Agents named by a warning about unanswered drills. For each of them an answer ends the warning. */
export const drillsNamed = ({ bigint }: Dialect['ddl']): string[] => [
  `alter table instances add column drill_named_at ${bigint}`,
]
