import type { Dialect } from '../database.ts'

/** What agents last reported of their configuration, by names and hashes. */
export const agentConfigs = ({ bigint, text }: Dialect['ddl']): string[] => [
  `create table agent_configs (
    instance_id ${text} not null, source ${text} not null, key_id ${text} not null, digest ${text} not null, items ${text} not null,
    servers ${text} not null, since ${bigint} not null, reported_at ${bigint} not null, changed_at ${bigint},
    primary key (instance_id, source)
  )`,
]
