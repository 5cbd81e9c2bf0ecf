import { Link } from '@tanstack/react-router'
import { useMemo } from 'react'
import type { Row } from '../data/live-tail.ts'
import { SeverityMark } from '../parts/marks.tsx'
import { SessionLine } from '../parts/session-line.tsx'
import { sessionsOf } from '../parts/sessions.ts'
import { HostileText } from '../ui/hostile-text.tsx'
import { EmptyState, Panel } from '../ui/panel.tsx'
import { Time } from '../ui/time.tsx'
import css from './agent.module.css'
import { anomalyMetric } from './reports.ts'

const maxAnomalies = 10
const maxSessions = 10

/** Anomalies that the service found in the agent's reported metrics, one sentence each. */
export function Anomalies({ rows, id }: { rows: readonly Row[]; id: string }) {
  const found = rows.filter((row) => anomalyMetric(row) !== undefined)
  return (
    <Panel title="Anomalies" note="in the reported metrics">
      {found.length === 0 && <EmptyState>No anomalies.</EmptyState>}
      <ul className={css.lines}>
        {found.slice(0, maxAnomalies).map((row) => (
          <li key={row.id}>
            <SeverityMark severity={row.severity} />
            <Link to="/events" search={{ instance_id: id, event_type: 'anomaly_detected', open: row.seq ?? undefined }}>
              <HostileText text={row.description} max={300} />
            </Link>
            <span className="quiet">
              <Time at={row.created_at} />
            </span>
          </li>
        ))}
      </ul>
      {found.length > maxAnomalies && (
        <EmptyState>{(found.length - maxAnomalies).toLocaleString('en')} older anomalies not shown.</EmptyState>
      )}
    </Panel>
  )
}

/** Recent sessions with inputs, calls and outcome. */
export function Sessions({ rows }: { rows: readonly Row[] }) {
  const sessions = useMemo(() => sessionsOf(rows), [rows])
  return (
    <Panel title="Sessions" note="inputs → calls → outcome, from the loaded events">
      {sessions.length === 0 && <EmptyState>No sessions. Send session_id with events to group them.</EmptyState>}
      {sessions.slice(0, maxSessions).map((session) => (
        <SessionLine key={session.id} session={session} />
      ))}
      {sessions.length > maxSessions && (
        <EmptyState>{(sessions.length - maxSessions).toLocaleString('en')} older sessions not shown.</EmptyState>
      )}
    </Panel>
  )
}
