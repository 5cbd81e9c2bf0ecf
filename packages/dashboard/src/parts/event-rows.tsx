import { lineTextOf } from '@wardline/contract'
import type { Row } from '../data/live-tail.ts'
import { HostileText } from '../ui/hostile-text.tsx'
import { Time } from '../ui/time.tsx'
import { EventTitle } from './agent-id.tsx'
import { SeverityMark } from './marks.tsx'
import './event-rows.css'

/** One event as one line: time, severity, title, description. */
export function EventLine({ row }: { row: Row }) {
  return (
    <>
      <Time at={row.created_at} />
      <SeverityMark severity={row.severity} />
      <span className="cut title">
        <EventTitle of={row} />
        {/* The title of an event without an agent does not say where it comes from. */}
        {row.instance_id === null && !row.by_service && (
          <span className="quiet">
            {' · '}
            <HostileText text={row.source} line />
          </span>
        )}
      </span>
      <HostileText text={lineTextOf(row)} line />
    </>
  )
}
