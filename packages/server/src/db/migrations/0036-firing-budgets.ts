import type { Dialect } from '../database.ts'

/** Whose budget a firing is of, and how many firings were beyond the budgets. */
export const firingBudgets = ({ bigint }: Dialect['ddl']): string[] => [
  `alter table rule_firings add column by_service ${bigint} not null default 0`,
  `alter table rule_hours add column suppressed ${bigint} not null default 0`,
]
