import type { Dialect } from '../database.ts'

/** People and keys that are limited to agents with tags of operators, and which agents have which of these tags. */
export const teams = ({ text, clustered, listed }: Dialect['ddl']): string[] => [
  `alter table api_keys add column team ${text}`,
  `alter table people add column team ${text}`,
  `alter table role_mappings add column team ${text}`,
  `create table operator_tags (
    tag ${text} not null, instance_id ${text} not null, primary key (tag, instance_id)
  ) ${clustered}`,
  `create index operator_tags_by_instance on operator_tags (instance_id)`,
  ...listed('instances', 'operator_tags', 'operator_tags'),
]
