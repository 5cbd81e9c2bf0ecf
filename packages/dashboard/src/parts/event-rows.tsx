import type { Row } from '../data/live-tail.ts'
import { HostileText } from '../ui/hostile-text.tsx'
import { Time } from '../ui/time.tsx'
import { SeverityMark } from './marks.tsx'
import './event-rows.css'

/** One event as one line, without the agent's id on that agent's page. */
export function EventLine({ row, hasAgent = true }: { row: Row; hasAgent?: boolean }) {
  return (
    <>
      <Time at={row.created_at} />
      <SeverityMark severity={row.severity} />
      <HostileText text={row.event_type} line className="mono" />
      {hasAgent && <HostileText text={row.instance_id ?? row.source} line className="agent" />}
      <HostileText text={row.description} line />
    </>
  )
}
