import type { Dialect } from '../database.ts'

/** What each rule costs, since the sum is limited; and since when a rule has its mode, in which its cooldowns begin. */
export const ruleCosts = ({ bigint, text }: Dialect['ddl']): string[] => [
  `alter table rules add column cost ${bigint}`,
  `alter table rule_starts add column mode ${text}`,
  `alter table rule_starts add column mode_after ${bigint} not null default 0`,
]
