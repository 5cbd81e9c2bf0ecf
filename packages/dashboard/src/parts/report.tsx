import { Link } from '@tanstack/react-router'
import { descriptionOf } from '@wardline/contract'
import type { ReactNode } from 'react'
import type { Row } from '../data/live-tail.ts'
import { HostileText, type Span } from '../ui/hostile-text.tsx'
import { Time } from '../ui/time.tsx'
import { SeverityMark } from './marks.tsx'

interface ReportHeadProps {
  report: Pick<Row, 'severity' | 'created_at' | 'description' | 'by_service' | 'event_type'>
  title: ReactNode
  /** Beside the time. */
  state?: ReactNode
  /** Parts to mark of the description. */
  marks?: readonly Span[]
}

/** What an event or alert reports, and whether the service itself reported it. */
export function ReportHead({ report, title, state, marks }: ReportHeadProps) {
  const description = descriptionOf(report)
  return (
    <>
      <p>
        <SeverityMark severity={report.severity} /> <Time at={report.created_at} /> {state && <b>{state}</b>}
      </p>
      <h2>{title}</h2>
      <p>
        <HostileText text={description} max={1_000} {...(description === report.description && marks && { marks })} />
      </p>
      <p className="quiet">{report.by_service ? 'Reported by Wardline.' : 'Reported by a client; not verified.'}</p>
    </>
  )
}

/** Facts about where a report comes from. */
export function originFacts({ instance_id, session_id, source }: Pick<Row, 'instance_id' | 'session_id' | 'source'>) {
  return [
    [
      'Agent',
      instance_id !== null && (
        <Link to="/fleet/$id" params={{ id: instance_id }}>
          {instance_id}
        </Link>
      ),
    ],
    [
      'Session',
      session_id !== null && (
        <Link to="/events" search={{ session_id }}>
          <HostileText text={session_id} />
        </Link>
      ),
      true,
    ],
    ['Source', <HostileText key="source" text={source} />, true],
  ] as const
}
