import type { Dialect } from '../database.ts'

/** Who showed a value to a rule first, so that a flood makes rules forget what the flooding agent showed. */
export const reporters = ({ text }: Dialect['ddl']): string[] => [`alter table rule_values add column reporter ${text}`]
