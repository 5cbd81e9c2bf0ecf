import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import type { ContainmentSummary, ReplyOf, ResumeRequest } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { useState } from 'react'
import { containmentsQuery, figuresQuery } from '../data/containments.ts'
import { refreshMs, summaryQuery } from '../data/fleet.ts'
import { countsOf } from '../data/fleet-counts.ts'
import { openContainments } from '../data/open-containments.ts'
import { AgentLink } from '../parts/agent-link.tsx'
import { OperatorButton } from '../parts/operator-button.tsx'
import { msText } from '../suspend/stages.ts'
import { buttonClass } from '../ui/button.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { lazyDialog } from '../ui/lazy-dialog.tsx'
import { Screen } from '../ui/panel.tsx'
import { spanText } from '../ui/span.ts'
import { type Column, DataTable } from '../ui/table.tsx'
import { Time, useNow } from '../ui/time.tsx'
import { Brake } from './brake.tsx'
import { containmentHeading, selectorText } from './containment-texts.ts'
import { Drills } from './drills.tsx'
import { StateWord } from './progress.tsx'

const ConfirmDialog = lazyDialog(async () => (await import('./choose-dialog.tsx')).ConfirmDialog)

const route = getRouteApi('/inside/containments')

function headingOf(open: readonly ContainmentSummary[] | undefined): string {
  if (!open) return 'Containments'
  const moving = open.filter(({ state }) => state === 'in_progress')
  if (moving.length > 1) return `${counted(moving.length, 'containment')} in progress`
  const [first] = moving.length > 0 ? moving : open
  return first ? containmentHeading(first) : 'No containment in progress'
}

const columns: Column<ContainmentSummary>[] = [
  {
    name: 'Containment',
    cell: ({ id, action, requested, selector, tags_scope: scope, reason }) => (
      <>
        <Link to="/containments/$id" params={{ id }}>
          {action === 'suspend' ? 'Suspend' : 'Resume'} {counted(requested, 'agent')}:{' '}
          {selectorText(selector, requested, scope)}
        </Link>
        <p className="quiet">
          <HostileText text={reason} max={120} />
        </p>
      </>
    ),
  },
  { name: 'State', cell: ({ state }) => <StateWord state={state} />, kind: 'word' },
  {
    name: 'Progress',
    cell: ({ action, requested, confirmed, proven }) =>
      `${confirmed} of ${requested} confirmed${action === 'suspend' ? `, ${proven} proven stopped` : ''}`,
  },
  { name: 'Requested', cell: ({ requested_at }) => <Time at={requested_at} />, kind: 'word' },
  { name: 'By', cell: ({ by, by_name }) => <HostileText text={by_name ?? by} max={60} />, isWide: true },
]

type Figure = ReplyOf<'getSuspensionCounts'>['stages'][number]

/** Durations of the stages of suspensions. */
function Latencies() {
  const { data, error } = useQuery(figuresQuery)
  const suspensions = data?.suspensions ?? 0
  const figureColumns: Column<Figure>[] = [
    { name: 'Stage', cell: ({ stage }) => stage, kind: 'word' },
    { name: 'p50', cell: ({ p50_ms }) => msText(p50_ms), kind: 'number' },
    { name: 'p95', cell: ({ p95_ms }) => msText(p95_ms), kind: 'number', isWide: true },
    { name: 'p99', cell: ({ p99_ms }) => msText(p99_ms), kind: 'number' },
    { name: 'Observed', cell: ({ measured }) => `${measured} of ${suspensions}`, isWide: true },
  ]
  return (
    <DataTable
      title="Time from the request to each stage"
      note={data && `${counted(suspensions, 'suspension')} in 24 hours`}
      columns={figureColumns}
      rows={suspensions > 0 ? data?.stages : data && []}
      rowKey={({ stage }) => stage}
      isStacked={false}
      fault={error}
      empty="No suspensions in the last 24 hours."
    />
  )
}

function Expiry({ at }: { at: string }) {
  return (
    <>
      <Time at={at} /> ({spanText(Date.parse(at) - useNow())} left)
    </>
  )
}

const requestColumns = (onConfirm: (request: ResumeRequest) => void): Column<ResumeRequest>[] => [
  {
    name: 'Request',
    cell: ({ instance_id: id, agents, selector, tags_scope: scope }) => (
      <>
        Resume{' '}
        {id === null ? (
          `${counted(agents, 'agent')}: ${selectorText(selector ?? {}, agents, scope)}`
        ) : (
          <AgentLink id={id} />
        )}
      </>
    ),
  },
  {
    name: 'Requested',
    cell: ({ by, by_name, own, requested_at }) => (
      <>
        <Time at={requested_at} /> by <HostileText text={by_name ?? by} max={60} />
        {own && <p className="quiet">Your own request: another operator must confirm it.</p>}
      </>
    ),
  },
  { name: 'Expires', cell: ({ expires_at }) => <Expiry at={expires_at} /> },
  {
    name: 'Confirm',
    isNameHidden: true,
    cell: (request) => (
      <OperatorButton kind="go" disabled={request.own} onClick={() => onConfirm(request)}>
        Confirm…
      </OperatorButton>
    ),
  },
]

/** Resumes that wait for a second operator: who requested them, for which agents, and until when. */
function ResumeRequests({ requests }: { requests: readonly ResumeRequest[] }) {
  // Kept in state, because the request disappears when it is confirmed while the dialog still shows the progress.
  const [open, setOpen] = useState<ResumeRequest>()
  return (
    <>
      {requests.length > 0 && (
        <DataTable
          title="Waiting for a second operator"
          columns={requestColumns(setOpen)}
          rows={requests}
          rowKey={({ requested_at, instance_id, by }) => `${requested_at} ${instance_id} ${by}`}
        />
      )}
      {open && <ConfirmDialog request={open} onClose={() => setOpen(undefined)} />}
    </>
  )
}

/** Lists containments and drills. */
export function Containments() {
  const { drill } = route.useSearch()
  const { data, error } = useQuery({ ...containmentsQuery, refetchInterval: refreshMs })
  const { data: fleet } = useQuery(summaryQuery())
  const heading = headingOf(data && fleet && openContainments(data.containments, countsOf(fleet.state.counts)))
  return (
    <Screen title={heading} heading={<span aria-live="polite">{heading}</span>}>
      <ResumeRequests requests={data?.resume_requests ?? []} />
      <DataTable
        title="Containments"
        note="newest first"
        end={
          <Link to="/fleet" className={buttonClass()}>
            Open the fleet
          </Link>
        }
        columns={columns}
        rows={data?.containments}
        rowKey={({ id }) => id}
        fault={error}
        empty="No containments yet. Suspend agents in the fleet: by tag, by selection, or all of them."
      />
      <Brake />
      <Latencies />
      <Drills open={drill} />
    </Screen>
  )
}
