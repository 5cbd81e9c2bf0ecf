import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { limits } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { useChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import { type Decoy, decoysQuery, ignoresQuery, kindOf, worstFirst } from '../data/decoys.ts'
import { queryKeys } from '../data/query-keys.ts'
import { useIsLimited, useMayOperate } from '../data/session.ts'
import { ChangeButton, entered } from '../parts/change-dialog.tsx'
import { FilteredTable } from '../parts/filtered-table.tsx'
import { OperatorButton } from '../parts/operator-button.tsx'
import { ConfirmButton } from '../ui/button.tsx'
import { SelectField, TextField } from '../ui/field.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { lazyDialog } from '../ui/lazy-dialog.tsx'
import { EmptyState, Fault, Panel, Screen } from '../ui/panel.tsx'
import { useKeys } from '../ui/shortcuts.ts'
import { dayMs } from '../ui/span.ts'
import { type Column, DataTable } from '../ui/table.tsx'
import { Time, useNow } from '../ui/time.tsx'
import { plainText } from '../ui/unseen-characters.ts'
import { allAgents, DecoyAgent } from './decoy-agent.tsx'
import type { DecoyFilter, DecoySearch } from './search.ts'

const DecoyDrawer = lazyDialog(async () => (await import('./decoy-drawer.tsx')).DecoyDrawer)
const PlantDialog = lazyDialog(async () => (await import('./plant-dialog.tsx')).PlantDialog)

const route = getRouteApi('/inside/decoys')

const filterNames: Record<DecoyFilter, string> = {
  issued: 'Issued',
  planted: 'Planted',
  tripped: 'Tripped',
  retired: 'Retired',
  keys: 'Keys',
  paths: 'Paths',
}
const isOf = ({ type, details: { state } }: Decoy, filter: DecoyFilter): boolean => {
  if (filter === 'keys') return type === 'api_key'
  return filter === 'paths' ? type === 'file_path' : state === filter
}

function headingOf(decoys: readonly Decoy[], now: number): string {
  if (decoys.length === 0) return 'No decoys'
  const lately = decoys.filter(({ details }) => now - Date.parse(details.last_hit_at ?? '') < dayMs).length
  const all = counted(decoys.length, 'decoy')
  return lately > 0 ? `${lately.toLocaleString('en')} of ${all} hit in 24 h` : `${all}, no hits in 24 h`
}

const textOf = (decoy: Decoy): string =>
  [decoy.details.label, decoy.details.path, decoy.details.instanceId ?? allAgents, kindOf(decoy)].join('\n')

const columns: readonly Column<Decoy>[] = [
  {
    name: 'Decoy',
    cell: (decoy) => {
      const { instanceId, label, path, state, leaked_outside } = decoy.details
      return (
        <>
          <Link from="/decoys" search={(before) => ({ ...before, open: decoy.id })} replace>
            <HostileText text={label || (path ?? kindOf(decoy))} max={120} line />
          </Link>
          <div className="quiet">
            {kindOf(decoy)} · {state}
            {leaked_outside && <b className="breach"> · leaked outside</b>}
            <span className="on-phone"> · {instanceId ?? allAgents}</span>
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
  { name: 'Agent', isWide: true, cell: ({ details: { instanceId } }) => <DecoyAgent id={instanceId} /> },
  {
    name: 'Hits',
    kind: 'number',
    cell: ({ details: { hit_count } }) => (
      <span className={hit_count > 0 ? 'breach' : ''}>
        {hit_count.toLocaleString('en')}
        {hit_count >= limits.listedHits && '+'}
      </span>
    ),
  },
  { name: 'First hit', kind: 'number', isExtra: true, cell: ({ details }) => <Time at={details.first_hit_at} /> },
  { name: 'Last hit', kind: 'number', cell: ({ details }) => <Time at={details.last_hit_at} /> },
  { name: 'Issued', kind: 'number', isExtra: true, cell: ({ createdAt }) => <Time at={createdAt} /> },
]

/** Allows for clock differences: the service compares the longest allowed end with its own clock. */
const slackMs = 60_000

function IgnoreButton() {
  return (
    <ChangeButton
      name="Ignore a tool…"
      changes={[queryKeys.decoyIgnores]}
      title="Ignore a tool"
      submit="Ignore tool"
      send={async (form) => {
        const until = new Date(Date.now() + Number(form.get('days')) * dayMs - slackMs).toISOString()
        const body = { tool: entered(form, 'tool'), reason: entered(form, 'reason'), until }
        await call('createDecoyIgnore', { body })
        return 'Tool ignored.'
      }}
    >
      <TextField label="Tool" name="tool" isFirst required maxLength={24} />
      <TextField label="Reason" name="reason" required maxLength={limits.reason} />
      <SelectField
        label="Duration"
        name="days"
        defaultValue={7}
        options={[1, 7, 30, 90].map((days) => [days, counted(days, 'day')] as const)}
      />
    </ChangeButton>
  )
}

/** Tools whose hits create no breach, each with a reason and an expiry. */
function IgnoredTools() {
  const { data: ignores, error } = useQuery(ignoresQuery)
  const { fault, isBusy, run } = useChange({ changes: [queryKeys.decoyIgnores] })
  const remove = (id: string) =>
    run(async () => {
      await call('deleteDecoyIgnore', { params: { id } })
      return 'Tool no longer ignored.'
    })
  return (
    <DataTable
      title="Ignored tools"
      note="Their calls are denied and counted, without a breach or suspension."
      end={<IgnoreButton />}
      columns={[
        { name: 'Tool', cell: ({ tool }) => <HostileText text={tool} max={24} /> },
        { name: 'Reason', cell: ({ reason }) => <HostileText text={reason} max={200} /> },
        { name: 'Until', kind: 'number', cell: ({ until }) => <Time at={until} /> },
        { name: 'By', cell: ({ created_by }) => <HostileText text={created_by} max={60} /> },
        {
          name: 'Actions',
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
      fault={fault ?? error}
      empty="No ignored tools."
    />
  )
}

export function Decoys() {
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const { data, error } = useQuery(decoysQuery)
  const now = useNow()
  const mayOperate = useMayOperate()
  const isLimited = useIsLimited()
  const all = data ?? []
  const show = (change: Partial<DecoySearch>) =>
    void navigate({ search: (before) => ({ ...before, ...change }), replace: true })
  const plant = () => show({ plant: 'new' })
  useKeys({ n: () => mayOperate && plant() })
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
        <FilteredTable
          label="Decoys, last hit first"
          columns={columns}
          rows={[...all].sort(worstFirst)}
          rowKey={({ id }) => id}
          empty="No matching decoys."
          filter={search}
          onFilter={show}
          textLabel="Filter by label, path, kind or agent"
          textOf={textOf}
          kindLabel="State and kind"
          kinds={filterNames}
          isOf={isOf}
          onOpen={({ id }) => show({ open: id })}
        />
      )}
      {data && all.length === 0 && (
        <Panel label="How decoys work">
          <EmptyState>
            Plant a decoy where an agent works, for example a key in its <code>.env</code>. The SDK, the hooks and the
            MCP proxy compare every call with the decoys: a call that uses one is denied and shows here within a second.
          </EmptyState>
        </Panel>
      )}
      {data && !isLimited && <IgnoredTools />}
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
