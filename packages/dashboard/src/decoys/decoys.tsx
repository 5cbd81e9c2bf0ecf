import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { limits } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { useRef, useState } from 'react'
import { useChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import { type Decoy, decoysQuery, ignoresQuery, kindOf, worstFirst } from '../data/decoys.ts'
import { queryKeys } from '../data/query-keys.ts'
import { useMayOperate } from '../data/session.ts'
import { OperatorButton } from '../parts/operator-button.tsx'
import { ChipGroup, ConfirmButton } from '../ui/button.tsx'
import { SearchField } from '../ui/field.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { lazyDialog } from '../ui/lazy-dialog.tsx'
import { EmptyState, Fault, Panel, Screen } from '../ui/panel.tsx'
import { useKeys } from '../ui/shortcuts.ts'
import { dayMs } from '../ui/span.ts'
import { type Column, DataTable } from '../ui/table.tsx'
import { Time, useNow } from '../ui/time.tsx'
import { plainText } from '../ui/unseen-characters.ts'
import css from './decoys.module.css'
import { type DecoyFilter, type DecoySearch, decoyFilters } from './search.ts'

const DecoyDrawer = lazyDialog(async () => (await import('./decoy-drawer.tsx')).DecoyDrawer)
const PlantDialog = lazyDialog(async () => (await import('./plant-dialog.tsx')).PlantDialog)
const IgnoreDialog = lazyDialog(async () => (await import('./ignore-dialog.tsx')).IgnoreDialog)

const route = getRouteApi('/inside/decoys')

const filterNames: Record<DecoyFilter, string> = {
  issued: 'Issued',
  planted: 'Planted',
  tripped: 'Tripped',
  retired: 'Retired',
  keys: 'Keys',
  paths: 'Paths',
}
const isShown = (filter: DecoyFilter | undefined, { type, details: { state } }: Decoy): boolean => {
  if (filter === 'keys') return type === 'api_key'
  if (filter === 'paths') return type === 'file_path'
  return filter === undefined || state === filter
}

function headingOf(decoys: readonly Decoy[], now: number): string {
  if (decoys.length === 0) return 'No decoys'
  const lately = decoys.filter(({ details }) => now - Date.parse(details.lastHitAt ?? '') < dayMs).length
  const all = counted(decoys.length, 'decoy')
  return lately > 0 ? `${lately.toLocaleString('en')} of ${all} hit in 24 h` : `${all}, no hits in 24 h`
}

const textOf = (decoy: Decoy): string =>
  [decoy.details.label, decoy.details.path, decoy.details.instanceId, kindOf(decoy)].join('\n').toLowerCase()

const timeOf = (at: string | null) => (at === null ? '–' : <Time at={at} />)

const columns: readonly Column<Decoy>[] = [
  {
    name: 'decoy',
    cell: (decoy) => {
      const { instanceId, label, path, state, leakedOutside } = decoy.details
      return (
        <>
          <Link from="/decoys" search={(before) => ({ ...before, open: decoy.id })} replace>
            <HostileText text={label || (path ?? kindOf(decoy))} max={120} line />
          </Link>
          <div className="quiet">
            {kindOf(decoy)} · {state}
            {leakedOutside && <b className="breach"> · leaked outside</b>}
            <span className={css.narrow}> · {instanceId}</span>
            {path !== undefined && (
              <>
                {' · '}
                <span className="mono">
                  <HostileText text={path} max={120} />
                </span>
              </>
            )}
          </div>
        </>
      )
    },
  },
  {
    name: 'agent',
    isWide: true,
    cell: ({ details: { instanceId } }) => (
      <Link to="/fleet/$id" params={{ id: instanceId }} className="quiet">
        {instanceId}
      </Link>
    ),
  },
  {
    name: 'hits',
    kind: 'number',
    cell: ({ details: { hitCount } }) => (
      <span className={hitCount > 0 ? 'breach' : ''}>
        {hitCount.toLocaleString('en')}
        {hitCount >= limits.listedHits && '+'}
      </span>
    ),
  },
  { name: 'first hit', kind: 'number', isWide: true, cell: ({ details }) => timeOf(details.firstHitAt) },
  { name: 'last hit', kind: 'number', cell: ({ details }) => timeOf(details.lastHitAt) },
  { name: 'issued', kind: 'number', isWide: true, cell: ({ createdAt }) => timeOf(createdAt) },
]

/** Tools whose hits create no breach, each with a reason and an expiry. */
function IgnoredTools() {
  const { data: ignores = [], error } = useQuery(ignoresQuery)
  const { fault, isBusy, run } = useChange({ changes: [queryKeys.decoyIgnores] })
  const [isAdding, setAdding] = useState(false)
  const remove = (id: string) =>
    run(async () => {
      await call('deleteDecoyIgnore', { params: { id } })
      return 'Tool no longer ignored.'
    })
  return (
    <>
      <DataTable
        label="Ignored tools"
        title="Ignored tools"
        note="their calls are denied and counted, without a breach or suspension"
        end={<OperatorButton onClick={() => setAdding(true)}>Ignore a tool…</OperatorButton>}
        columns={[
          { name: 'tool', cell: ({ tool }) => <HostileText text={tool} max={24} /> },
          { name: 'reason', cell: ({ reason }) => <HostileText text={reason} max={200} /> },
          { name: 'until', kind: 'number', cell: ({ until }) => <Time at={until} /> },
          { name: 'by', cell: ({ created_by }) => <HostileText text={created_by} max={60} /> },
          {
            name: 'actions',
            isNameHidden: true,
            cell: ({ id, tool }) => (
              <ConfirmButton
                as={OperatorButton}
                about={plainText(tool)}
                sure="Remove it"
                disabled={isBusy}
                onConfirm={() => void remove(id)}
              >
                Remove
              </ConfirmButton>
            ),
          },
        ]}
        rows={ignores}
        rowKey={({ id }) => id}
        empty="No ignored tools."
      />
      <Fault of={fault ?? error} />
      {isAdding && <IgnoreDialog onClose={() => setAdding(false)} />}
    </>
  )
}

export function Decoys() {
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const { data, error } = useQuery(decoysQuery)
  const now = useNow()
  const mayOperate = useMayOperate()
  const [text, setText] = useState(search.q ?? '')
  const [at, setAt] = useState(0)
  const filter = useRef<HTMLInputElement>(null)
  const all = data ?? []
  const words = (search.q ?? '').toLowerCase()
  const found = all.filter((decoy) => textOf(decoy).includes(words))
  const matching = found.filter((decoy) => isShown(search.show, decoy)).sort(worstFirst)
  const show = (change: Partial<DecoySearch>) =>
    void navigate({ search: (before) => ({ ...before, ...change }), replace: true })
  const plant = () => show({ plant: 'new' })
  useKeys({
    '/': () => filter.current?.focus(),
    j: () => setAt(Math.min(matching.length - 1, at + 1)),
    k: () => setAt(Math.max(0, at - 1)),
    Enter: () => matching[at] && show({ open: matching[at].id }),
    n: () => mayOperate && plant(),
  })
  return (
    <Screen
      title={data ? headingOf(all, now) : 'Decoys'}
      lead="A decoy is a key or path that no agent has a reason to use: an agent that touches it is compromised or snooping."
      actions={
        <OperatorButton kind="go" shortcut="n" onClick={plant}>
          Plant a decoy
        </OperatorButton>
      }
    >
      <Fault of={error} />
      {all.length > 0 && (
        <>
          <div className="chips">
            <SearchField
              field={filter}
              label="Filter by label, path, kind or agent"
              value={text}
              onChange={(next) => {
                setText(next)
                setAt(0)
                show({ q: next || undefined })
              }}
            />
            <ChipGroup
              label="State and kind"
              value={search.show}
              all={{ name: 'All', count: found.length }}
              options={decoyFilters.map((value) => {
                const count = found.filter((decoy) => isShown(value, decoy)).length
                return { value, name: filterNames[value], count }
              })}
              onChange={(value) => show({ show: value })}
            />
          </div>
          <DataTable
            label="Decoys, last hit first"
            columns={columns}
            rows={matching}
            rowKey={({ id }) => id}
            at={at}
            empty="No decoys match."
            isStacked={false}
          />
        </>
      )}
      {data && all.length === 0 && (
        <Panel label="How decoys work">
          <EmptyState>
            Plant a decoy where an agent works, for example a key in its <code>.env</code>. The SDK, the hooks and the
            MCP proxy compare every call with the decoys: a call that uses one is denied and shows here within a second.
          </EmptyState>
        </Panel>
      )}
      {data && <IgnoredTools />}
      {search.open !== undefined && <DecoyDrawer id={search.open} onClose={() => show({ open: undefined })} />}
      {search.plant !== undefined && mayOperate && (
        <PlantDialog
          preset={search.plant}
          agent={search.agent}
          onClose={() => show({ plant: undefined, agent: undefined })}
        />
      )}
    </Screen>
  )
}
