import type { Dialect } from '../database.ts'

/** Lists that rules name, and for each rule how often one of its lists was changed. */
export const ruleLists = ({ bigint, text }: Dialect['ddl']): string[] => [
  `create table rule_lists (
    name ${text} primary key, description ${text} not null, entries ${text} not null, count ${bigint} not null,
    version ${bigint} not null, created_at ${bigint} not null, changed_at ${bigint} not null, changed_by ${text}
  )`,
  `alter table rules add column list_changes ${bigint} not null default 0`,
]
