import { Link } from '@tanstack/react-router'
import { useMemo } from 'react'
import { HostileText } from '../parts/hostile-text.tsx'
import { SeverityMark } from '../parts/marks.tsx'
import { SessionLine } from '../parts/session-line.tsx'
import { sessionsOf } from '../parts/sessions.ts'
import { Time } from '../parts/time.tsx'
import type { Row } from '../service/live-tail.ts'
import { anomalyMetric } from './reports.ts'

const maxAnomalies = 10
const maxSessions = 10

/** Anomalies that the service found in the agent's reported metrics, one sentence each. */
export function Anomalies({ rows, id }: { rows: readonly Row[]; id: string }) {
  const found = rows.filter((row) => anomalyMetric(row) !== undefined)
  return (
    <section className="panel" aria-labelledby="anomalies">
      <header>
        <h2 id="anomalies">Unusual figures</h2>
        <span className="quiet">against what this agent reported before</span>
      </header>
      {found.length === 0 && <p className="empty">None was found in what the agent reported of its sessions.</p>}
      <ul className="anomalies">
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
        {found.length > maxAnomalies && (
          <li className="quiet">and {(found.length - maxAnomalies).toLocaleString('en')} more before these</li>
        )}
      </ul>
    </section>
  )
}

/** Recent sessions with inputs, calls and outcome. */
export function Sessions({ rows }: { rows: readonly Row[] }) {
  const sessions = useMemo(() => sessionsOf(rows), [rows])
  return (
    <section className="panel" aria-labelledby="sessions">
      <header>
        <h2 id="sessions">Sessions</h2>
        <span className="quiet">inputs → calls → outcome, of the events that are loaded here</span>
      </header>
      {sessions.length === 0 && (
        <p className="empty">No event of this agent names a session: send session_id with its events.</p>
      )}
      {sessions.slice(0, maxSessions).map((session) => (
        <SessionLine key={session.id} session={session} />
      ))}
      {sessions.length > maxSessions && (
        <p className="empty">and {(sessions.length - maxSessions).toLocaleString('en')} before these</p>
      )}
    </section>
  )
}
