import { useInfiniteQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import type { ToolServer, ToolServerVariant } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { toolServersQuery } from '../data/tool-servers.ts'
import { Button } from '../ui/button.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { EmptyState } from '../ui/panel.tsx'
import { useRows } from '../ui/rows.ts'
import { type Column, DataTable } from '../ui/table.tsx'
import { Time } from '../ui/time.tsx'

const route = getRouteApi('/inside/fleet')

const keyOf = ({ version, command, address }: ToolServerVariant) => [version, command, address].join('\n')

function Variant({ variant: { version, command, address, agents } }: { variant: ToolServerVariant }) {
  return (
    <div>
      {version === null ? <span className="quiet">no version</span> : <HostileText text={version} max={40} />}
      {command !== null && (
        <>
          {' · '}
          <HostileText text={command} max={80} />
        </>
      )}
      {address !== null && (
        <>
          {' · '}
          <HostileText text={address} max={80} />
        </>
      )}{' '}
      <span className="quiet">· {counted(agents, 'agent')}</span>
    </div>
  )
}

const columns: Column<ToolServer>[] = [
  {
    name: 'Tool server',
    cell: ({ name }) => (
      <Link to="/fleet" search={{ server: name }} title="Agents with this tool server">
        <HostileText text={name} max={80} />
      </Link>
    ),
  },
  { name: 'Agents', kind: 'number', cell: ({ agents }) => agents.toLocaleString('en') },
  {
    name: 'Version, and what runs',
    cell: ({ variants, variant_count }) => (
      <>
        {variants.map((variant) => (
          <Variant key={keyOf(variant)} variant={variant} />
        ))}
        {variant_count > variants.length && (
          <div className="quiet">{(variant_count - variants.length).toLocaleString('en')} more of fewer agents</div>
        )}
      </>
    ),
  },
  { name: 'First seen', kind: 'number', isWide: true, cell: ({ first_seen }) => <Time at={first_seen} /> },
  { name: 'Last seen', kind: 'number', isWide: true, cell: ({ last_seen }) => <Time at={last_seen} /> },
]

/** Which tool servers agents have, by what hooks, the supervisor and doctor report of their configuration. */
export function ToolServers() {
  const navigate = route.useNavigate()
  const { data, error, hasNextPage, isFetchingNextPage, fetchNextPage } = useInfiniteQuery(toolServersQuery)
  const servers = data?.pages.flatMap((page) => page.servers)
  const { at } = useRows(servers ?? [], { Enter: ({ name }) => void navigate({ search: { server: name } }) })
  return (
    <DataTable
      label="Tool servers"
      fault={error}
      columns={columns}
      rows={servers}
      rowKey={({ name }) => name.toLowerCase()}
      at={at}
      maxRows={1_000}
      empty={
        <>
          No agent has reported a tool server. The <Link to="/connect">hooks of coding agents</Link> report them.
        </>
      }
      foot={
        hasNextPage && (
          <EmptyState
            action={
              <Button disabled={isFetchingNextPage} onClick={() => void fetchNextPage()}>
                Show more
              </Button>
            }
          >
            The first {counted(servers?.length ?? 0, 'tool server')} by name.
          </EmptyState>
        )
      }
    />
  )
}
