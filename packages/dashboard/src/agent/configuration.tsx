import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { ConfigItem, ConfigKind } from '@wardline/contract'
import { call } from '../data/client.ts'
import { refreshMs } from '../data/fleet.ts'
import { queryKeys } from '../data/query-keys.ts'
import { HostileText } from '../ui/hostile-text.tsx'
import { Fault } from '../ui/panel.tsx'
import { type Column, DataTable } from '../ui/table.tsx'
import { Time } from '../ui/time.tsx'

const configQuery = (id: string) => ({
  queryKey: queryKeys.agentConfig(id),
  queryFn: async () => (await call('getConfig', { params: { instanceId: id } })).configs,
  refetchInterval: 6 * refreshMs,
})

const kindNames: Record<ConfigKind, string> = {
  hook: 'hook',
  permission: 'permission',
  server: 'tool server',
  skill: 'skill',
  plugin: 'plugin',
  instructions: 'instructions',
  tool: 'tool',
}

const itemColumns: Column<ConfigItem>[] = [
  { name: 'Kind', kind: 'word', cell: ({ kind, ours }) => (ours ? "Wardline's hook" : kindNames[kind]) },
  {
    name: 'Name',
    cell: ({ kind, name }) => {
      const text = <HostileText text={name} max={80} />
      if (kind !== 'server') return text
      return (
        <Link to="/fleet" search={{ server: name }} title="Agents with this tool server">
          {text}
        </Link>
      )
    },
  },
  { name: 'Version', cell: ({ version }) => version !== undefined && <HostileText text={version} max={40} /> },
  {
    name: 'Runs',
    cell: ({ command, address }) => <HostileText text={command ?? address ?? ''} max={80} />,
    isWide: true,
  },
  { name: 'Hash', cell: ({ sha256 }) => <code title={sha256}>{sha256.slice(0, 12)}</code>, isWide: true },
]

/** What the agent is configured with, by name and hash; nothing for agents of which nobody reports it. */
export function Configuration({ id }: { id: string }) {
  const { data, error } = useQuery(configQuery(id))
  return (
    <>
      <Fault of={error} />
      {data?.map(({ source, since, reported_at, changed_at, items }) => (
        <DataTable
          key={source}
          title={`Configuration: ${source}`}
          label={`Configuration of ${source}`}
          end={
            <span className="quiet">
              {changed_at === null ? 'unchanged since ' : 'changed '}
              <Time at={changed_at ?? since} />, reported <Time at={reported_at} />{' '}
              <Link to="/events" search={{ instance_id: id, event_type: 'agent_config_changed' }}>
                Open changes in events
              </Link>
            </span>
          }
          columns={itemColumns}
          rows={items}
          rowKey={({ kind, name }) => `${kind} ${name}`}
          empty="Nothing is configured."
        />
      ))}
    </>
  )
}
