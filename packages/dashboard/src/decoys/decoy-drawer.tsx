import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { eventTypes } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { useState } from 'react'
import { call } from '../data/client.ts'
import { type DecoyDetail, decoyQuery, kindOf } from '../data/decoys.ts'
import { queryKeys } from '../data/query-keys.ts'
import { OperatorButton } from '../parts/operator-button.tsx'
import { useWidth } from '../parts/width.ts'
import { Drawer } from '../ui/dialog.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { Fault, Notice } from '../ui/panel.tsx'
import { DataTable, Facts } from '../ui/table.tsx'
import { dayTimeText, Time, useNow, useZone } from '../ui/time.tsx'
import { type DecoyAction, DecoyDialog } from './decoy-dialogs.tsx'
import css from './decoys.module.css'

/** A hit and its event are stored together, but a clock adjustment may make their times differ. */
const slackMs = 60_000

const chartHeight = 56
const slots = 60

/** Hits of the decoy over time since it was planted. The table below lists the same hits. */
function HitChart({ decoy, times }: { decoy: DecoyDetail; times: readonly number[] }) {
  const zone = useZone()
  const now = useNow()
  const [box, width] = useWidth<HTMLDivElement>()
  // If there are more hits than listed, only the latest are known, so the axis begins with the oldest of them.
  const isPart = times.length < decoy.hitCount
  const from = isPart ? Math.min(...times) : Date.parse(decoy.createdAt)
  const to = Math.max(now, ...times, from + 60_000)
  const counts = Array.from({ length: slots }, () => 0)
  for (const time of times) {
    const slot = Math.floor(((time - from) / (to - from)) * slots)
    counts[Math.min(slots - 1, Math.max(0, slot))]! += 1
  }
  const highest = Math.max(...counts)
  return (
    <div ref={box} className={css.chart}>
      <svg
        width={width}
        height={chartHeight + 20}
        role="img"
        aria-label={`${counted(times.length, 'hit')} between ${dayTimeText(zone, from)} and ${dayTimeText(zone, to)}`}
      >
        {counts.map((count, slot) => {
          if (count === 0) return null
          const size = Math.max(4, (count / highest) * (chartHeight - 6))
          const place = { x: (slot / slots) * width, y: chartHeight - size, width: Math.max(2, width / slots - 2) }
          return <rect key={slot} {...place} height={size} fill="currentColor" />
        })}
        <line x1="0" x2={width} y1={chartHeight + 0.5} y2={chartHeight + 0.5} />
        <text x="0" y={chartHeight + 15}>
          {isPart ? '' : 'issued '}
          {dayTimeText(zone, from)}
        </text>
        <text x={width} y={chartHeight + 15} textAnchor="end">
          now
        </text>
      </svg>
    </div>
  )
}

/** Returns the seq of each hit's event, by event id. Retention removes events before their hits. */
function useEventSeqs({ id, hits }: Pick<DecoyDetail, 'id' | 'hits'>) {
  const times = hits.map(({ at }) => Date.parse(at))
  const [from, to] = [Math.min(...times) - slackMs, Math.max(...times) + slackMs]
  const { data } = useQuery({
    queryKey: queryKeys.decoyEvents(id, from, to),
    queryFn: async ({ signal }) => {
      const range = { from: new Date(from).toISOString(), to: new Date(to).toISOString() }
      const query = { event_type: eventTypes.honeypotTriggered, severity: 'breach' as const, limit: '1000', ...range }
      const { events } = await call('listEvents', { query, signal })
      return new Map(events.map((event) => [event.id, event.seq]))
    },
    enabled: hits.length > 0,
  })
  return data
}

function HitBy({ hit }: { hit: DecoyDetail['hits'][number] }) {
  const { reporter, tool, ip_address, form, test, ignored, outside } = hit
  const marks = [form, ignored && 'ignored', outside && 'outside'].filter(Boolean).map((mark) => `${mark} · `)
  return (
    <>
      {test ? (
        <span className="quiet">test by an operator</span>
      ) : reporter === null ? (
        <span className="quiet">unknown agent</span>
      ) : (
        <Link to="/fleet/$id" params={{ id: reporter }}>
          {reporter}
        </Link>
      )}
      <div className="quiet">
        {marks}
        {tool === null ? 'unknown tool' : <HostileText text={tool} max={60} />}
        {ip_address !== null && (
          <>
            {' · from '}
            <HostileText text={ip_address} max={45} />
          </>
        )}
      </div>
    </>
  )
}

function Hits({ decoy }: { decoy: DecoyDetail }) {
  const seqs = useEventSeqs(decoy)
  const times = decoy.hits.filter(({ test }) => !test).map(({ at }) => Date.parse(at))
  return (
    <>
      {times.length > 0 && <HitChart decoy={decoy} times={times} />}
      <DataTable
        label="Hits"
        title="Hits"
        note={
          times.length < decoy.hitCount && (
            <>
              latest {times.length} of {decoy.hitCount.toLocaleString('en')},{' '}
              <Link to="/events" search={{ event_type: eventTypes.honeypotTriggered }}>
                all events
              </Link>
            </>
          )
        }
        columns={[
          { name: 'time', kind: 'number', cell: ({ at }) => <Time at={at} /> },
          { name: 'agent', cell: (hit) => <HitBy hit={hit} /> },
          {
            name: 'event',
            isNameHidden: true,
            kind: 'word',
            cell: ({ event_id, ignored }) => {
              const seq = seqs?.get(event_id)
              if (seq === undefined) return seqs && !ignored && <span className="quiet">event not found</span>
              return (
                <Link to="/events" search={{ severity: 'breach', open: seq }}>
                  Event
                </Link>
              )
            },
          },
        ]}
        rows={decoy.hits}
        rowKey={({ id }) => id}
        empty="No hits yet."
      />
    </>
  )
}

function Details({ decoy }: { decoy: DecoyDetail }) {
  const { label, path, instanceId, createdAt, deletedAt, firstHitAt, hitCount, state, planted, replacedBy } = decoy
  return (
    <>
      <h2>
        <HostileText text={label || (path ?? 'Decoy without a label')} max={200} />
      </h2>
      {deletedAt !== null && (
        <Notice>
          Deleted <Time at={deletedAt} />. Its use is no longer detected.
        </Notice>
      )}
      <Facts
        facts={[
          ['kind', kindOf(decoy)],
          ['path', path !== undefined && <HostileText text={path} max={1_024} />, true],
          [
            'state',
            <span key="state" className={state === 'tripped' ? 'breach' : ''}>
              {state}
              {decoy.leakedOutside && ', leaked outside: used by another agent'}
              {replacedBy !== null && (
                <>
                  {', replaced by '}
                  <Link from="/decoys" search={(before) => ({ ...before, open: replacedBy })} replace>
                    a new decoy
                  </Link>
                </>
              )}
            </span>,
          ],
          [
            'location',
            planted && (
              <>
                <HostileText text={planted.note} max={500} />
                {planted.file !== null && (
                  <div className="mono">
                    <HostileText text={planted.file} max={1_024} />
                  </div>
                )}
                <div className="quiet">
                  set by <HostileText text={planted.by} max={100} /> <Time at={planted.at} />
                </div>
              </>
            ),
          ],
          [
            'agent',
            <Link key="agent" to="/fleet/$id" params={{ id: instanceId }}>
              {instanceId}
            </Link>,
          ],
          ['issued', <Time key="issued" at={createdAt} />],
          [
            'hits',
            <span key="hits" className={hitCount > 0 ? 'breach' : ''}>
              {hitCount.toLocaleString('en')}
              {firstHitAt !== null && (
                <>
                  , first <Time at={firstHitAt} />
                </>
              )}
            </span>,
          ],
        ]}
      />
      <Hits decoy={decoy} />
    </>
  )
}

/** One decoy with its hits. The drawer has an address that can be shared. */
export function DecoyDrawer({ id, onClose }: { id: string; onClose(): void }) {
  const { data: decoy, error } = useQuery(decoyQuery(id))
  const [action, setAction] = useState<DecoyAction>()
  return (
    <Drawer
      label="Decoy"
      onClose={onClose}
      actions={
        decoy?.deletedAt === null && (
          <>
            <OperatorButton onClick={() => setAction('location')}>Set location…</OperatorButton>
            {decoy.type === 'api_key' && decoy.retiredAt === null && (
              <OperatorButton onClick={() => setAction('rotate')}>Rotate…</OperatorButton>
            )}
            <OperatorButton onClick={() => setAction('test')}>Test…</OperatorButton>
            <OperatorButton kind="danger" onClick={() => setAction('delete')}>
              Delete…
            </OperatorButton>
          </>
        )
      }
    >
      {!decoy && <Fault of={error} />}
      {decoy && <Details decoy={decoy} />}
      {decoy && action && (
        <DecoyDialog action={action} decoy={decoy} onDeleted={onClose} onClose={() => setAction(undefined)} />
      )}
    </Drawer>
  )
}
