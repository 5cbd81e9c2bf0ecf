import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { counted } from '@wardline/text/counted'
import { useState } from 'react'
import { type Brake as BrakeState, brakeQuery } from '../data/containments.ts'
import { refreshMs } from '../data/fleet.ts'
import { OperatorButton } from '../parts/operator-button.tsx'
import { lazyDialog } from '../ui/lazy-dialog.tsx'
import { Fault, Panel } from '../ui/panel.tsx'
import { type Column, DataTable } from '../ui/table.tsx'
import { Time } from '../ui/time.tsx'
import css from './containments.module.css'

const ReleaseDialog = lazyDialog(async () => (await import('./release-dialog.tsx')).ReleaseDialog)

const refusedColumns: Column<BrakeState['refused_instances'][number]>[] = [
  {
    name: 'agent',
    cell: ({ instance_id }) => (
      <Link to="/fleet/$id" params={{ id: instance_id }}>
        {instance_id}
      </Link>
    ),
  },
  { name: 'refused', cell: ({ count }) => `${count} ×`, kind: 'number' },
  { name: 'last', cell: ({ at }) => <Time at={at} /> },
  { name: 'event', cell: ({ event_id }) => <span className="mono">{event_id}</span>, isWide: true },
]

/** The brake of automatic suspensions: its state, the event that engaged it, and the agents that it left running. */
export function Brake() {
  const [isOpen, setOpen] = useState(false)
  const { data, error } = useQuery({ ...brakeQuery, refetchInterval: refreshMs })
  const isEngaged = data?.engaged === true
  return (
    <>
      <Panel
        title={
          isEngaged ? (
            <span className="critical">The brake is engaged: nothing is suspended automatically</span>
          ) : (
            'Brake of automatic suspensions'
          )
        }
        end={isEngaged && <OperatorButton onClick={() => setOpen(true)}>Release…</OperatorButton>}
      >
        <Fault of={error} isInPanel />
        {data && (
          <div className={css.inner}>
            {isEngaged ? (
              <p>
                {data.engaged_at === null ? 'Engaged' : <>Engaged since {<Time at={data.engaged_at} />}</>}
                {data.engaged_by_event !== null && <>, by event {data.engaged_by_event}</>}.{' '}
                {counted(data.refused, 'automatic suspension')} refused since. Only an operator can release it.
              </p>
            ) : (
              <p>Not engaged.</p>
            )}
            <p className="quiet">
              Automatic suspensions: {data.last_minute} of {data.limits.per_minute} in the last minute, {data.suspended}{' '}
              of {data.limits.fleet_max} at the same time ({data.limits.fleet_percent} % of{' '}
              {counted(data.limits.fleet, 'agent')}).
            </p>
          </div>
        )}
      </Panel>
      {data && data.refused_instances.length > 0 && (
        <DataTable
          title="Suspensions refused by the brake"
          label="Suspensions refused by the brake"
          columns={refusedColumns}
          rows={data.refused_instances}
          rowKey={({ instance_id }) => instance_id}
          empty=""
        />
      )}
      {isOpen && <ReleaseDialog onClose={() => setOpen(false)} />}
    </>
  )
}
