import { useQuery } from '@tanstack/react-query'
import { limits } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { useState } from 'react'
import { call } from '../data/client.ts'
import { type Brake as BrakeState, brakeQuery } from '../data/containments.ts'
import { agentsQuery, refreshMs } from '../data/fleet.ts'
import { queryKeys } from '../data/query-keys.ts'
import { AgentLink } from '../parts/agent-link.tsx'
import { ChangeButton } from '../parts/change-dialog.tsx'
import { OperatorButton } from '../parts/operator-button.tsx'
import { TextArea } from '../ui/field.tsx'
import { lazyDialog } from '../ui/lazy-dialog.tsx'
import { Fault, Panel } from '../ui/panel.tsx'
import { type Column, DataTable } from '../ui/table.tsx'
import { Time } from '../ui/time.tsx'

const FleetDialog = lazyDialog(async () => (await import('./fleet-dialog.tsx')).FleetDialog)

const refusedColumns: Column<BrakeState['refused_instances'][number]>[] = [
  { name: 'Agent', cell: ({ instance_id }) => <AgentLink id={instance_id} /> },
  { name: 'Refused', cell: ({ count }) => `${count} ×`, kind: 'number' },
  { name: 'Last refused', cell: ({ at }) => <Time at={at} /> },
  { name: 'Event', cell: ({ event_id }) => <span className="mono">{event_id}</span>, isWide: true },
]

function ReleaseButton() {
  const [reason, setReason] = useState('')
  return (
    <ChangeButton
      name="Release…"
      changes={[queryKeys.brake]}
      title="Release the brake"
      submit="Release the brake"
      isReady={reason.trim() !== ''}
      send={async () => {
        await call('changeBrake', { body: { action: 'release', reason: reason.trim() } })
        return 'Brake released.'
      }}
    >
      <p>Automatic suspensions start again. Agents whose suspension was refused keep running; suspend them below.</p>
      <TextArea
        label="Reason"
        isFirst
        rows={2}
        required
        maxLength={limits.reason}
        value={reason}
        onChange={({ target }) => setReason(target.value)}
      />
    </ChangeButton>
  )
}

/** Suspends the agents that the brake left running, as one containment. */
function SuspendRefused({ refused }: { refused: BrakeState['refused_instances'] }) {
  const { data: agents = [] } = useQuery(agentsQuery(refused.map(({ instance_id }) => instance_id)))
  const [chosen, setChosen] = useState<string[]>()
  const running = agents.filter(({ status }) => status !== 'suspended').map(({ id }) => id)
  return (
    <>
      {running.length > 0 && (
        <OperatorButton kind="danger" onClick={() => setChosen(running)}>
          Suspend {running.length === 1 ? 'it' : `these ${counted(running.length, 'agent')}`}…
        </OperatorButton>
      )}
      {chosen && (
        <FleetDialog
          action="suspend"
          selector={{ instances: chosen }}
          because="The brake refused to suspend"
          onClose={() => setChosen(undefined)}
        />
      )}
    </>
  )
}

function BrakeFacts({ brake }: { brake: BrakeState }) {
  const { engaged, engaged_at, engaged_by_event, refused, last_minute, suspended } = brake
  const { per_minute, fleet, fleet_max, fleet_percent, fleet_min } = brake.limits
  return (
    <div className="inner">
      {engaged ? (
        <p>
          Engaged
          {engaged_at !== null && (
            <>
              {' since '}
              <Time at={engaged_at} />
            </>
          )}
          {engaged_by_event !== null && `, by event ${engaged_by_event}`}. {counted(refused, 'automatic suspension')}{' '}
          refused since. Only an operator can release it.
        </p>
      ) : (
        <p>Not engaged.</p>
      )}
      {fleet !== null && (
        <p className="quiet">
          Automatic suspensions: {last_minute} of {per_minute} in the last minute, {suspended} of {fleet_max} at the
          same time ({fleet_percent}% of {counted(fleet, 'agent')}, at least {fleet_min}).
        </p>
      )}
    </div>
  )
}

/** The brake of automatic suspensions: its state, the event that engaged it, and the agents that it left running. */
export function Brake() {
  const { data, error } = useQuery({ ...brakeQuery, refetchInterval: refreshMs })
  const isEngaged = data?.engaged === true
  const title = isEngaged ? 'The brake is engaged: nothing is suspended automatically' : 'Brake'
  return (
    <>
      <Panel title={<span className={isEngaged ? 'critical' : ''}>{title}</span>} end={isEngaged && <ReleaseButton />}>
        <Fault of={error} isInPanel />
        {data && <BrakeFacts brake={data} />}
      </Panel>
      {data && data.refused_instances.length > 0 && (
        <DataTable
          title="Suspensions refused by the brake"
          end={<SuspendRefused refused={data.refused_instances} />}
          columns={refusedColumns}
          rows={data.refused_instances}
          rowKey={({ instance_id }) => instance_id}
        />
      )}
    </>
  )
}
