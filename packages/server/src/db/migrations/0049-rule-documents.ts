import type { Dialect } from '../database.ts'

/** What runs of a rule, so that a start reads no YAML, and its tags. */
export const ruleDocuments = ({ text }: Dialect['ddl']): string[] => [
  `alter table rules add column tags ${text} not null default '[]'`,
  `alter table rules add column document ${text}`,
]
