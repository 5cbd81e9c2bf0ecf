import type { Dialect } from '../database.ts'

/** The maximum cost that a person confirmed for a transaction. */
export const confirmedCosts = ({ text }: Dialect['ddl']): string[] => [
  `alter table chain_transactions add column max_cost ${text}`,
]
