import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { eventTypes } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { call } from '../data/client.ts'
import { type DecoyDetail, decoyQuery, kindOf } from '../data/decoys.ts'
import { queryKeys } from '../data/query-keys.ts'
import { AgentLink } from '../parts/agent-link.tsx'
import { barsOf, CountBars } from '../parts/count-bars.tsx'
import { Drawer } from '../ui/dialog.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { Fault, Notice } from '../ui/panel.tsx'
import { DataTable, Facts } from '../ui/table.tsx'
import { dayTimeText, Time, useNow, useZone } from '../ui/time.tsx'
import { DecoyActions } from './decoy-actions.tsx'
import { DecoyAgent } from './decoy-agent.tsx'

type Hit = DecoyDetail['hits'][number]

/** A hit and its event are recorded together, but a clock adjustment may make their times differ. */
const slackMs = 60_000

const bars = 60

/** Hits of the decoy over time since it was planted. The table below lists the same hits. */
function HitChart({ decoy, hits }: { decoy: DecoyDetail; hits: readonly Hit[] }) {
  const zone = useZone()
  const now = useNow()
  const times = hits.map(({ at }) => Date.parse(at))
  // If there are more hits than listed, only the latest are known, so the axis begins with the oldest of them.
  const from = hits.length < decoy.hit_count ? Math.min(...times) : Date.parse(decoy.createdAt)
  const to = Math.max(now, ...times, from + 60_000)
  const points = hits.map(({ at }) => ({ at, count: 1 }))
  return (
    <CountBars
      label={`${counted(hits.length, 'hit')} between ${dayTimeText(zone, from)} and ${dayTimeText(zone, to)}`}
      bars={barsOf(points, from, to, (to - from) / bars)}
      unit="hit"
      colour="breach"
    />
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

function HitBy({ hit: { reporter, tool, ip_address, form, test, ignored, outside } }: { hit: Hit }) {
  const marks = [form, ignored && 'ignored', outside && 'outside'].filter(Boolean).map((mark) => `${mark} · `)
  const isKnown = reporter !== null && !test
  return (
    <>
      {isKnown && <AgentLink id={reporter} />}
      {!isKnown && <span className="quiet">{test ? 'test by an operator' : 'unknown agent'}</span>}
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
  const real = decoy.hits.filter(({ test }) => !test)
  return (
    <>
      {real.length > 0 && <HitChart decoy={decoy} hits={real} />}
      <DataTable
        title="Hits"
        note={
          real.length < decoy.hit_count && (
            <>
              Latest {real.length} of {decoy.hit_count.toLocaleString('en')}.{' '}
              <Link to="/events" search={{ event_type: eventTypes.honeypotTriggered }}>
                Open hits in events
              </Link>
            </>
          )
        }
        columns={[
          { name: 'Time', kind: 'number', cell: ({ at }) => <Time at={at} /> },
          { name: 'Agent', cell: (hit) => <HitBy hit={hit} /> },
          {
            name: 'Event',
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

function State({ decoy: { state, leaked_outside, replaced_by } }: { decoy: DecoyDetail }) {
  return (
    <span className={state === 'tripped' ? 'breach' : ''}>
      {state}
      {leaked_outside && ', leaked outside: used by another agent'}
      {replaced_by !== null && (
        <>
          {', replaced by '}
          <Link from="/decoys" search={(before) => ({ ...before, open: replaced_by })} replace>
            a new decoy
          </Link>
        </>
      )}
    </span>
  )
}

function Location({ planted: { note, file, by, at } }: { planted: NonNullable<DecoyDetail['planted']> }) {
  return (
    <>
      <HostileText text={note} max={500} />
      {file !== null && (
        <div className="mono">
          <HostileText text={file} max={1_024} />
        </div>
      )}
      <div className="quiet">
        set by <HostileText text={by} max={100} /> <Time at={at} />
      </div>
    </>
  )
}

function Details({ decoy }: { decoy: DecoyDetail }) {
  const { label, path, instanceId, createdAt, deleted_at, first_hit_at, hit_count, planted } = decoy
  return (
    <>
      <h2>
        <HostileText text={label || (path ?? 'Decoy without a label')} max={200} />
      </h2>
      {deleted_at !== null && (
        <Notice>
          Deleted <Time at={deleted_at} />. Its use is no longer detected.
        </Notice>
      )}
      <Facts
        facts={[
          ['Kind', kindOf(decoy)],
          ['Path', path !== undefined && <HostileText text={path} max={1_024} />, true],
          ['State', <State key="state" decoy={decoy} />],
          ['Location', planted && <Location planted={planted} />],
          ['Agent', <DecoyAgent key="agent" id={instanceId} />],
          ['Issued', <Time key="issued" at={createdAt} />],
          ['Hits', hit_count > 0 ? <span className="breach">{hit_count.toLocaleString('en')}</span> : '0'],
          ['First hit', first_hit_at !== null && <Time at={first_hit_at} />],
        ]}
      />
      <Hits decoy={decoy} />
    </>
  )
}

/** One decoy with its hits. The drawer has an address that can be shared. */
export function DecoyDrawer({ id, onClose }: { id: string; onClose(): void }) {
  const { data: decoy, error } = useQuery(decoyQuery(id))
  return (
    <Drawer label="Decoy" onClose={onClose} actions={decoy && <DecoyActions decoy={decoy} onDeleted={onClose} />}>
      {decoy ? <Details decoy={decoy} /> : <Fault of={error} />}
    </Drawer>
  )
}
