import type { Dialect } from '../database.ts'

/** Which agents run which tool server. Rows of configurations that are stored already follow with their next report in another hour. */
export const toolServers = ({ bigint, text, clustered }: Dialect['ddl']): string[] => [
  `create table tool_servers (
    server_key ${text} not null, instance_id ${text} not null, source ${text} not null, name ${text} not null,
    version ${text} not null, command ${text} not null, address ${text} not null,
    named_at ${bigint} not null, since ${bigint} not null, seen_at ${bigint} not null,
    primary key (server_key, instance_id, source, name)
  ) ${clustered}`,
  'create index tool_servers_by_config on tool_servers (instance_id, source)',
  'alter table agent_configs drop column servers',
]
