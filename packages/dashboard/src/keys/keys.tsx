import { queryOptions, useQuery } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import type { KeyView } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { useRef, useState } from 'react'
import { call } from '../data/client.ts'
import { queryKeys } from '../data/query-keys.ts'
import { sessionQuery } from '../data/session.ts'
import { Button, ChipGroup } from '../ui/button.tsx'
import { SearchField } from '../ui/field.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { lazyDialog } from '../ui/lazy-dialog.tsx'
import { Menu } from '../ui/menu.tsx'
import { EmptyState, Fault, Panel, Screen } from '../ui/panel.tsx'
import { useKeys } from '../ui/shortcuts.ts'
import { spanText } from '../ui/span.ts'
import { type Column, DataTable } from '../ui/table.tsx'
import { Time, useNow } from '../ui/time.tsx'
import { plainText } from '../ui/unseen-characters.ts'
import type { KeySearch } from './search.ts'

const KeyDialog = lazyDialog(async () => (await import('./key-dialogs.tsx')).KeyDialog)

const route = getRouteApi('/inside/keys')

/** Contains no secrets: only the responses of create and rotate do, and they are not cached. */
const keysQuery = queryOptions({
  queryKey: queryKeys.keys,
  queryFn: async ({ signal }) => (await call('listKeys', { signal })).keys,
  refetchInterval: 30_000,
})

const isEnded = ({ revoked_at, expires_at }: KeyView, now: number): boolean =>
  revoked_at !== null || (expires_at !== null && Date.parse(expires_at) <= now)

type Asked = { action: 'rotate' | 'revoke'; entry: KeyView }

function State({ entry: { revoked_at, expires_at }, now }: { entry: KeyView; now: number }) {
  if (revoked_at === null && expires_at === null) return <span className="ok">valid</span>
  const left = Date.parse(expires_at ?? '') - now
  if (revoked_at === null && left > 0) return <span className="warning">expires in {spanText(left)}</span>
  return (
    <>
      {revoked_at === null ? 'expired' : 'revoked'} <Time at={revoked_at ?? expires_at!} />
    </>
  )
}

const columnsOf = (ownId: string, now: number, onAsk: (asked: Asked) => void): readonly Column<KeyView>[] => [
  {
    name: 'Key',
    cell: ({ id, name, created_at }) => (
      <>
        <b>
          <HostileText text={name} max={100} />
        </b>
        {id === ownId && ' (your key)'}
        <div className="quiet">
          <span className="mono">{id}</span> · created <Time at={created_at} />
        </div>
      </>
    ),
  },
  {
    name: 'Scope and agents',
    cell: ({ scope, instances, models, supervises }) => (
      <>
        {scope}
        {supervises && ' (supervisor)'}
        {instances.length > 0 && (
          <div className="quiet mono">
            <HostileText text={instances.join(', ')} max={80} />
          </div>
        )}
        {models && (
          <div className="quiet">
            models:{' '}
            <span className="mono">
              <HostileText text={models.join(', ')} max={80} />
            </span>
          </div>
        )}
      </>
    ),
  },
  {
    name: 'Last used',
    kind: 'number',
    isWide: true,
    cell: ({ last_used_at }) => (last_used_at === null ? 'never' : <Time at={last_used_at} />),
  },
  { name: 'State', kind: 'number', cell: (entry) => <State entry={entry} now={now} /> },
  {
    name: 'Actions',
    isNameHidden: true,
    cell: (entry) =>
      !isEnded(entry, now) && (
        <Menu
          name="Actions"
          about={plainText(entry.name)}
          items={[
            { name: 'Rotate…', onClick: () => onAsk({ action: 'rotate', entry }) },
            { name: 'Revoke…', isDangerous: true, onClick: () => onAsk({ action: 'revoke', entry }) },
          ]}
        />
      ),
  },
]

function KeyList({ ownId, isPerson }: { ownId: string; isPerson: boolean }) {
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const { data, error } = useQuery(keysQuery)
  const now = useNow()
  const [text, setText] = useState(search.q ?? '')
  const [asked, setAsked] = useState<Asked>()
  const filter = useRef<HTMLInputElement>(null)
  const all = data ?? []
  const words = (search.q ?? '').toLowerCase()
  const validAll = all.filter((entry) => !isEnded(entry, now))
  const found = all.filter(({ id, name, scope, instances }) =>
    [id, name, scope, ...instances].join('\n').toLowerCase().includes(words),
  )
  const valid = found.filter((entry) => !isEnded(entry, now))
  const ended = found.filter((entry) => isEnded(entry, now))
  const admins = validAll.filter(({ scope }) => scope === 'admin').length
  const show = (change: Partial<KeySearch>) =>
    void navigate({ search: (before) => ({ ...before, ...change }), replace: true })
  const create = () => show({ create: true })
  useKeys({ '/': () => filter.current?.focus(), n: create })
  return (
    <Screen
      title={data ? counted(validAll.length, 'valid key') : 'Keys'}
      lead={
        <>
          {data &&
            !isPerson &&
            !all.some(({ id }) => id === ownId) &&
            "You use WARDLINE_API_KEY from the server's environment. "}
          Create a key for each agent and person, so that you can revoke one without the others.
        </>
      }
      actions={
        <Button kind="go" shortcut="n" onClick={create}>
          Create a key
        </Button>
      }
    >
      <Fault of={error} />
      <div className="chips">
        <SearchField
          field={filter}
          label="Filter by name, id, scope or agent"
          value={text}
          onChange={(next) => {
            setText(next)
            show({ q: next || undefined })
          }}
        />
        <ChipGroup
          label="State"
          value={search.show ?? 'valid'}
          options={[
            { value: 'valid', name: 'Valid', count: valid.length },
            { value: 'ended', name: 'Revoked or expired', count: ended.length },
          ]}
          onChange={(value) => show({ show: value === 'ended' ? value : undefined })}
        />
      </div>
      {data && (
        <DataTable
          label="Keys, newest first"
          columns={columnsOf(ownId, now, setAsked)}
          rows={(search.show === 'ended' ? ended : valid).toReversed()}
          rowKey={({ id }) => id}
          empty="No matching keys."
        />
      )}
      {search.create && <KeyDialog action="create" onClose={() => show({ create: undefined })} />}
      {asked && (
        <KeyDialog
          {...asked}
          isOwn={asked.entry.id === ownId}
          isLastAdmin={asked.entry.scope === 'admin' && admins === 1}
          onClose={() => setAsked(undefined)}
        />
      )}
    </Screen>
  )
}

export function Keys() {
  const { data: session } = useQuery(sessionQuery)
  if (session?.scope === 'admin') return <KeyList ownId={session.key_id} isPerson={session.person !== undefined} />
  return (
    <Screen title="Keys">
      {session && (
        <Panel label="Required scope">
          <EmptyState>
            Managing keys requires scope admin. You are signed in as <HostileText text={session.name} max={60} /> with
            scope {session.scope}. An admin creates keys here or in a terminal:{' '}
            <code>wardline keys create --scope agent --instance my-agent</code>
          </EmptyState>
        </Panel>
      )}
    </Screen>
  )
}
