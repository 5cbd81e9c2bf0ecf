import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { counted } from '@wardline/text/counted'
import { useState } from 'react'
import {
  type Allowance,
  type Approval,
  allowancesQuery,
  decidedApprovalsQuery,
  pendingApprovalsQuery,
} from '../data/approvals.ts'
import { useChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import { queryKeys } from '../data/query-keys.ts'
import { AgentLink } from '../parts/agent-link.tsx'
import { OperatorButton } from '../parts/operator-button.tsx'
import { RemovableChip } from '../ui/button.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { EmptyState, Fault, Panel, Screen } from '../ui/panel.tsx'
import { useKeys } from '../ui/shortcuts.ts'
import { type Column, DataTable } from '../ui/table.tsx'
import { Time } from '../ui/time.tsx'
import css from './approvals.module.css'
import { Decide } from './decide.tsx'
import { Approvers, DecidedBy, RequestArguments, RequestHeading, RequestRule, RequestTime } from './request.tsx'

const route = getRouteApi('/inside/approvals')

function Pending({ requests }: { requests: readonly Approval[] }) {
  const [picked, setPicked] = useState(0)
  const at = Math.min(picked, requests.length - 1)
  useKeys({
    j: () => setPicked(Math.min(requests.length - 1, at + 1)),
    k: () => setPicked(Math.max(0, at - 1)),
  })
  return (
    <ul className={`lines ${css.queue}`}>
      {requests.map((approval, index) => (
        <li key={approval.id} aria-current={index === at || undefined}>
          <div className={css.what}>
            <b>
              <RequestHeading approval={approval} />
            </b>
            <p>
              <RequestTime approval={approval} /> ·{' '}
              <Link to="/approvals/$id" params={{ id: approval.id }}>
                Open
              </Link>
            </p>
            <p>
              <RequestRule approval={approval} />
            </p>
            <Approvers approval={approval} />
            <RequestArguments approval={approval} />
          </div>
          <Decide approval={approval} isKeyed={index === at} />
        </li>
      ))}
    </ul>
  )
}

const stateColours: Record<Approval['state'], string> = {
  pending: 'warning',
  approved: 'ok',
  granted: 'ok',
  denied: 'critical',
  expired: 'quiet',
}
const stateNames: Record<Approval['state'], string> = {
  pending: 'pending',
  approved: 'approved, not used yet',
  granted: 'approved, call made',
  denied: 'denied',
  expired: 'expired',
}

/** The state of a request in words. */
export const StateOf = ({ state }: Pick<Approval, 'state'>) => (
  <span className={stateColours[state]}>{stateNames[state]}</span>
)

const columns: readonly Column<Approval>[] = [
  {
    name: 'Request',
    cell: (approval) => (
      <>
        <Link to="/approvals/$id" params={{ id: approval.id }}>
          <HostileText text={approval.tool} max={100} />
        </Link>{' '}
        <span className="quiet">
          of <AgentLink id={approval.instance_id} />
        </span>
        <div className="quiet">
          <HostileText text={approval.rule ?? 'default of the policy'} max={120} />
        </div>
      </>
    ),
  },
  { name: 'State', kind: 'word', cell: ({ state }) => <StateOf state={state} /> },
  {
    name: 'By',
    cell: (approval) => (
      <>
        <DecidedBy approval={approval} />
        {approval.allowance_id !== null && <div className="quiet">allowance</div>}
        {approval.reason !== null && (
          <div className="quiet">
            <HostileText text={approval.reason} max={200} />
          </div>
        )}
      </>
    ),
  },
  { name: 'Requested', kind: 'number', cell: ({ requested_at }) => <Time at={requested_at} /> },
]

function Allowances({ allowances }: { allowances: readonly Allowance[] }) {
  const { isBusy, fault, run } = useChange({ changes: [queryKeys.approvals] })
  const revoke = (id: string) =>
    void run(() => call('revokeAllowance', { params: { id } }), 'Allowance revoked: the next call is asked again.')
  return (
    <DataTable
      title="Allowances"
      note="Calls that go on without a question, for a while"
      fault={fault}
      columns={[
        {
          name: 'Tool',
          cell: ({ tool, instance_id }) => (
            <>
              <HostileText text={tool} max={100} />{' '}
              <span className="quiet">
                of <AgentLink id={instance_id} />
              </span>
            </>
          ),
        },
        { name: 'Used', kind: 'number', cell: ({ used, max_calls }) => `${used} of ${max_calls}` },
        { name: 'Until', kind: 'number', cell: ({ expires_at }) => <Time at={expires_at} /> },
        {
          name: 'By',
          isWide: true,
          cell: ({ by, by_name }) => <HostileText text={by_name ?? by} max={60} />,
        },
      ]}
      rows={allowances}
      rowKey={({ id }) => id}
      isStacked={false}
      actions={({ id, tool, instance_id, may_revoke }) => (
        <OperatorButton
          disabled={isBusy || !may_revoke}
          about={`: ${tool} of ${instance_id}`}
          onClick={() => revoke(id)}
        >
          Revoke
        </OperatorButton>
      )}
    />
  )
}

/** Calls that wait for a person, and what was decided. */
export function Approvals() {
  const { agent } = route.useSearch()
  const navigate = route.useNavigate()
  const pending = useQuery(pendingApprovalsQuery)
  const decided = useQuery(decidedApprovalsQuery)
  const allowances = useQuery(allowancesQuery)
  const isOf = ({ instance_id }: { instance_id: string }) => agent === undefined || instance_id === agent
  const waiting = pending.data?.approvals.filter(isOf)
  const active = allowances.data?.filter((allowance) => allowance.state === 'active' && isOf(allowance)) ?? []
  return (
    <Screen
      title={
        waiting
          ? waiting.length === 0
            ? 'Nothing waits for approval'
            : `${counted(waiting.length, 'call')} ${waiting.length === 1 ? 'waits' : 'wait'} for approval`
          : 'Approvals'
      }
      lead={
        <>
          Calls that a policy asks a person about. Without an answer they are denied.{' '}
          <Link to="/policies">Policies</Link>
        </>
      }
    >
      {agent !== undefined && (
        <div className="chips">
          <RemovableChip onRemove={() => void navigate({ search: {}, replace: true })}>agent {agent}</RemovableChip>
        </div>
      )}
      <Fault of={pending.error} />
      <Panel label="Waiting">
        {waiting?.length === 0 && <EmptyState>No call waits for a person.</EmptyState>}
        {waiting && waiting.length > 0 && <Pending requests={waiting} />}
      </Panel>
      <Fault of={allowances.error} />
      {active.length > 0 && <Allowances allowances={active} />}
      <DataTable
        title="Decided"
        fault={decided.error}
        columns={columns}
        rows={decided.data?.approvals.filter(isOf)}
        rowKey={({ id }) => id}
        empty="No decisions yet."
      />
    </Screen>
  )
}
