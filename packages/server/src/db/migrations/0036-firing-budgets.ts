import type { Dialect } from '../database.ts'

/** Budget to which a firing counts, and the number of firings over the budgets. */
export const firingBudgets = ({ bigint }: Dialect['ddl']): string[] => [
  `alter table rule_firings add column by_service ${bigint} not null default 0`,
  `alter table rule_hours add column suppressed ${bigint} not null default 0`,
]
