import type { Dialect } from '../database.ts'

/** Which blind agents were named: their next report ends an alert of their own. */
export const blindnessNamed = ({ bigint }: Dialect['ddl']): string[] => [
  `alter table report_habits add column blind_named_at ${bigint}`,
]
