import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { eventTypes, type ReplyOf, severities } from '@wardline/contract'
import { type ReactNode, useMemo, useState } from 'react'
import { useEvents } from '../data/event-tail.ts'
import type { Row } from '../data/live-tail.ts'
import { sum } from '../parts/chart.tsx'
import { EventLine } from '../parts/event-rows.tsx'
import { SeverityMark } from '../parts/marks.tsx'
import { SessionLine } from '../parts/session-line.tsx'
import { sessionsOf } from '../parts/sessions.ts'
import { Button } from '../ui/button.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { EmptyState, Panel } from '../ui/panel.tsx'
import { hourMs } from '../ui/span.ts'
import { Time } from '../ui/time.tsx'
import { eventCountsQuery } from './event-counts.ts'
import { anomalyMetric } from './reports.ts'
import type { TimelineHours } from './search.ts'

const maxLines = 10
const maxSessions = 10
/** Events shown at first, and added by each press; more are in the list of events. */
const shownEvents = 100
const addedEvents = 200

function Older({ count, what }: { count: number; what: string }) {
  return (
    count > 0 && (
      <EmptyState>
        {count.toLocaleString('en')} older {what} not shown.
      </EmptyState>
    )
  )
}

interface EventLinesProps {
  title: string
  note: string
  rows: readonly Row[]
  empty: ReactNode
  /** What older rows are called. */
  what: string
}

/** The newest of some events, one sentence each. */
function EventLines({ title, note, rows, empty, what }: EventLinesProps) {
  return (
    <Panel title={title} note={note}>
      {rows.length === 0 && <EmptyState>{empty}</EmptyState>}
      <ul className="lines">
        {rows.slice(0, maxLines).map((row) => (
          <li key={row.id}>
            <SeverityMark severity={row.severity} />
            <Link
              to="/events"
              search={{
                instance_id: row.instance_id ?? undefined,
                event_type: row.event_type,
                open: row.seq ?? undefined,
              }}
            >
              <HostileText text={row.description} max={300} />
            </Link>
            <span className="quiet">
              <Time at={row.created_at} />
            </span>
          </li>
        ))}
      </ul>
      <Older count={rows.length - maxLines} what={what} />
    </Panel>
  )
}

/** Anomalies that the service found in the agent's reported metrics. */
export function Anomalies({ id }: { id: string }) {
  const { rows } = useEvents({ instance_id: id, event_type: 'anomaly_detected' })
  return (
    <EventLines
      title="Anomalies"
      note="in the reported metrics"
      rows={rows.filter((row) => anomalyMetric(row) !== undefined)}
      empty="No anomalies."
      what="anomalies"
    />
  )
}

/** What policies decided about the agent's calls, except those that were allowed. */
export function Decisions({ id }: { id: string }) {
  const lists = [
    useEvents({ instance_id: id, event_type: eventTypes.toolBlocked }),
    useEvents({ instance_id: id, event_type: eventTypes.approvalRequested }),
    useEvents({ instance_id: id, event_type: eventTypes.approvalDecided }),
    useEvents({ instance_id: id, event_type: eventTypes.policyObserved }),
  ]
  const rows = lists.flatMap((list) => list.rows).sort((one, other) => (other.seq ?? 0) - (one.seq ?? 0))
  return (
    <EventLines
      title="Decisions"
      note="calls that policies denied or asked about"
      rows={rows}
      empty={
        <>
          No decisions. <Link to="/policies">Policies</Link> decide on calls before they run.
        </>
      }
      what="decisions"
    />
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

/** "5,204 events", or how many at least. */
function totalText(counts: ReplyOf<'getEventHistogram'> | undefined, loaded: number): string {
  const counted = sum(counts?.buckets.flatMap((bucket) => severities.map((severity) => bucket[severity])) ?? [])
  // A bucket of the counts may begin before the range, and events may have arrived since.
  const total = Math.max(counted, loaded)
  return `${counts?.complete === false ? 'more than ' : ''}${total.toLocaleString('en')} events`
}

/** The agent's events of the timeline's range, newest first. Older ones are loaded on request. */
export function Events({ id, hours }: { id: string; hours: TimelineHours }) {
  const { query, rows } = useEvents({ instance_id: id })
  const { data: counts } = useQuery(eventCountsQuery(id, hours))
  const [max, setMax] = useState(shownEvents)
  const since = Date.now() - hours * hourMs
  const found = rows.filter(({ created_at }) => Date.parse(created_at) >= since)
  const shown = found.slice(0, max)
  // All loaded events are of the range, so there may be older ones.
  const hasOlder = query.hasNextPage && found.length === rows.length
  const isMore = found.length > shown.length || hasOlder
  const range = hours === 1 ? 'the last hour' : `the last ${hours} hours`
  async function showOlder() {
    if (found.length < max + addedEvents && hasOlder) await query.fetchNextPage()
    setMax(max + addedEvents)
  }
  return (
    <Panel
      title="Events"
      note={`of ${range}, newest first`}
      end={
        <>
          <Link to="/incidents" search={{ agent: id }} className="quiet">
            Export evidence bundle
          </Link>
          <Link to="/events" search={{ instance_id: id, last: `${hours}h` }} className="quiet">
            Open in events
          </Link>
        </>
      }
    >
      {query.data && found.length === 0 && <EmptyState>No events in {range}.</EmptyState>}
      <ul>
        {shown.map((row) => (
          <li key={row.id}>
            <Link to="/events" search={{ instance_id: id, open: row.seq ?? undefined }} className="row event-line">
              <EventLine row={row} />
            </Link>
          </li>
        ))}
      </ul>
      {isMore && shown.length > 0 && (
        <EmptyState
          action={
            <Button disabled={query.isFetchingNextPage} onClick={() => void showOlder()}>
              Show older events
            </Button>
          }
        >
          The newest {shown.length.toLocaleString('en')} of {totalText(counts, found.length)} in {range}.
        </EmptyState>
      )}
    </Panel>
  )
}
