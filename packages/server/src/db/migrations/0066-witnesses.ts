import type { Dialect } from '../database.ts'

/** By what each instance is heard. */
export const witnesses = ({ bigint, text }: Dialect['ddl']): string[] => [
  `create table instance_witnesses (
    instance_id ${text} not null, witness ${text} not null, since ${bigint} not null, last_at ${bigint} not null,
    primary key (instance_id, witness)
  )`,
]
