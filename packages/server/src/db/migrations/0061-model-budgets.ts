import type { Dialect } from '../database.ts'

/** What calls of models used of their budgets. */
export const modelBudgets = ({ bigint, text, rewritten }: Dialect['ddl']): string[] => [
  `create table model_budgets (
    day ${text} not null, budget ${text} not null, instance_id ${text} not null, tokens ${bigint} not null,
    nano_usd ${bigint} not null, reserved_tokens ${bigint} not null, reserved_nano_usd ${bigint} not null,
    warned_at ${bigint}, refused_at ${bigint}, primary key (day, budget, instance_id)
  ) ${rewritten}`,
]
