import type { Dialect } from '../database.ts'

/** Blind agents named by an alert. Each of them has a separate alert, which its next report ends. */
export const blindnessNamed = ({ bigint }: Dialect['ddl']): string[] => [
  `alter table report_habits add column blind_named_at ${bigint}`,
]
