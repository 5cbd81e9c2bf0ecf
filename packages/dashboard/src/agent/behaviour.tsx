import { Link } from '@tanstack/react-router'
import { useMemo } from 'react'
import { useEvents } from '../data/event-tail.ts'
import { EventLine } from '../parts/event-rows.tsx'
import { SeverityMark } from '../parts/marks.tsx'
import { SessionLine } from '../parts/session-line.tsx'
import { sessionsOf } from '../parts/sessions.ts'
import { Button } from '../ui/button.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { EmptyState, Panel } from '../ui/panel.tsx'
import { hourMs } from '../ui/span.ts'
import { Time } from '../ui/time.tsx'
import { anomalyMetric } from './reports.ts'

const maxAnomalies = 10
const maxSessions = 10
const maxEvents = 100

/** The agent's events, and whether all of the last hours are loaded. */
export function useAgentEvents(id: string, hours: number) {
  const { query, rows } = useEvents({ instance_id: id })
  const oldest = rows.at(-1)
  const isFull = oldest !== undefined && Date.parse(oldest.created_at) <= Date.now() - hours * hourMs
  return { query, rows, isCovered: isFull || !query.hasNextPage }
}

function Older({ count, what }: { count: number; what: string }) {
  return (
    count > 0 && (
      <EmptyState>
        {count.toLocaleString('en')} older {what} not shown.
      </EmptyState>
    )
  )
}

/** Anomalies that the service found in the agent's reported metrics, one sentence each. */
export function Anomalies({ id }: { id: string }) {
  const filter = { instance_id: id, event_type: 'anomaly_detected' }
  const found = useEvents(filter).rows.filter((row) => anomalyMetric(row) !== undefined)
  return (
    <Panel title="Anomalies" note="in the reported metrics">
      {found.length === 0 && <EmptyState>No anomalies.</EmptyState>}
      <ul className="lines">
        {found.slice(0, maxAnomalies).map((row) => (
          <li key={row.id}>
            <SeverityMark severity={row.severity} />
            <Link to="/events" search={{ ...filter, open: row.seq ?? undefined }}>
              <HostileText text={row.description} max={300} />
            </Link>
            <span className="quiet">
              <Time at={row.created_at} />
            </span>
          </li>
        ))}
      </ul>
      <Older count={found.length - maxAnomalies} what="anomalies" />
    </Panel>
  )
}

/** Recent sessions with inputs, calls and outcome. */
export function Sessions({ id }: { id: string }) {
  const { rows } = useEvents({ instance_id: id })
  const sessions = useMemo(() => sessionsOf(rows), [rows])
  return (
    <Panel title="Sessions" note="inputs → calls → outcome, from the loaded events">
      {sessions.length === 0 && <EmptyState>No sessions. Send session_id with events to group them.</EmptyState>}
      {sessions.slice(0, maxSessions).map((session) => (
        <SessionLine key={session.id} session={session} />
      ))}
      <Older count={sessions.length - maxSessions} what="sessions" />
    </Panel>
  )
}

/** The agent's newest events. Older ones of the timeline's range are loaded on request. */
export function Events({ id, hours }: { id: string; hours: number }) {
  const { query, rows, isCovered } = useAgentEvents(id, hours)
  return (
    <Panel
      title="Events"
      note="newest first"
      end={
        <>
          <Link to="/incidents" search={{ agent: id }} className="quiet">
            Export evidence bundle
          </Link>
          <Link to="/events" search={{ instance_id: id }} className="quiet">
            Open in events
          </Link>
        </>
      }
    >
      {query.data && rows.length === 0 && <EmptyState>No events of this agent.</EmptyState>}
      <ul>
        {rows.slice(0, maxEvents).map((row) => (
          <li key={row.id}>
            <Link
              to="/events"
              search={{ instance_id: id, open: row.seq ?? undefined }}
              className="row event-line no-agent"
            >
              <EventLine row={row} hasAgent={false} />
            </Link>
          </li>
        ))}
      </ul>
      {rows.length > maxEvents && (
        <EmptyState>
          Newest {maxEvents} of {rows.length.toLocaleString('en')} loaded events. Open in events to see all.
        </EmptyState>
      )}
      {!isCovered && (
        <EmptyState
          action={
            <Button disabled={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
              Load older events
            </Button>
          }
        >
          Older events of this range are not loaded yet.
        </EmptyState>
      )}
    </Panel>
  )
}
