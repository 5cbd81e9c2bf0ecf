import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { Suspension } from '@wardline/contract'
import { useState } from 'react'
import { suspensionsQuery } from '../data/containments.ts'
import type { AgentDetail } from '../data/fleet.ts'
import { StageRow } from '../suspend/stage-row.tsx'
import {
  confirmedAfter,
  enforcementText,
  msText,
  stagesOf,
  stagesOfResume,
  suspensionSentence,
} from '../suspend/stages.ts'
import { Button } from '../ui/button.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { EmptyState, Fault, Panel } from '../ui/panel.tsx'
import { spanText } from '../ui/span.ts'
import { dayTimeText, millisecondText, Time, useNow, useZone } from '../ui/time.tsx'
import css from './agent.module.css'

/** Earlier suspensions shown by default. */
const shownEarlier = 3

/** Describes the last kill or resume, based only on the control version. */
function controlSentence(detail: AgentDetail, now: number): string {
  const { confirmed, changed_at } = detail.control
  if (changed_at === null) return 'Not suspended'
  const after = confirmedAfter(detail)
  const word = detail.status === 'suspended' ? 'Suspended' : 'Resumed'
  if (confirmed) return after === undefined ? word : `${word}, confirmed after ${msText(after)}`
  return `${word}, not confirmed for ${spanText(now - Date.parse(changed_at))}`
}

interface CauseProps {
  suspension: Suspension
  /** The suspension after this one. */
  later: Suspension | undefined
}

/** Actor, reason and containment of a suspension. */
function Cause({ suspension, later }: CauseProps) {
  const { by, by_name, reason, event_id, containment_id, through, ends_at, resumed_at } = suspension
  const actor = by_name ?? (by === 'system' ? 'the service' : (by ?? 'unknown'))
  const end = resumed_at ?? ends_at
  const ended = resumed_at === later?.requested_at ? 'replaced' : 'resumed'
  return (
    <>
      <p>
        <HostileText text={reason} />
      </p>
      <p className={`quiet ${css.cause}`}>
        <span>
          by <HostileText text={actor} max={60} />
        </span>
        {end !== null && (
          <span>
            {resumed_at === null ? 'until' : ended} <Time at={end} />
          </span>
        )}
        {event_id !== null && <span>caused by event {event_id}</span>}
        {containment_id !== null && (
          <Link to="/containments/$id" params={{ id: containment_id }}>
            Open containment
          </Link>
        )}
        {through !== null && (
          <Link to="/fleet/$id" params={{ id: through }}>
            Open parent
          </Link>
        )}
      </p>
    </>
  )
}

/** The configured enforcement points of a suspension. */
function Enforcement({ suspension: { enforcement = [] } }: { suspension: Suspension }) {
  if (enforcement.length === 0) return null
  return (
    <ul aria-label="Enforcement points">
      {enforcement.map((call) => (
        <li key={call.point}>
          <span className={call.state === 'confirmed' ? 'ok' : 'warning'} aria-hidden="true">
            {call.state === 'confirmed' ? '✓' : '▲'}
          </span>{' '}
          Enforcement point {call.point}: {enforcementText(call)}{' '}
          {call.confirmed_at !== null && <Time at={call.confirmed_at} />}
          {call.last_error !== null && (
            <span className="quiet">
              {' · '}
              <HostileText text={call.last_error} max={160} />
            </span>
          )}
        </li>
      ))}
    </ul>
  )
}

function Stages({ suspension, later, isPresent = false }: CauseProps & { isPresent?: boolean }) {
  const now = useNow()
  const zone = useZone()
  const requested = (isPresent ? millisecondText : dayTimeText)(zone, Date.parse(suspension.requested_at))
  return (
    <>
      <Cause suspension={suspension} later={later} />
      <StageRow stages={stagesOf(suspension, now, requested)} />
      <Enforcement suspension={suspension} />
    </>
  )
}

/** The stages of the last resume, or of a suspension that has no record. */
function ResumeStages({ detail }: { detail: AgentDetail }) {
  const now = useNow()
  const zone = useZone()
  const changed = detail.control.changed_at
  return (
    <>
      {detail.suspension_reason !== null && (
        <p>
          <HostileText text={detail.suspension_reason} />
        </p>
      )}
      <StageRow stages={stagesOfResume(detail, now, changed === null ? '' : dayTimeText(zone, Date.parse(changed)))} />
    </>
  )
}

/** The current suspension or the last resume, then earlier suspensions. */
export function Suspensions({ detail }: { detail: AgentDetail }) {
  const now = useNow()
  const [isAll, setAll] = useState(false)
  const { data: suspensions = [], error } = useQuery(suspensionsQuery(detail.id))
  const [newest] = suspensions
  const present = newest && newest.resumed_at === null && detail.status === 'suspended' ? newest : undefined
  const earlier = present ? suspensions.slice(1) : suspensions
  if (detail.control.changed_at === null && earlier.length === 0) return null
  const sentence = (one: Suspension) => (
    <span className={one.state === 'violated' ? 'breach' : ''}>{suspensionSentence(one, now)}</span>
  )
  return (
    <Panel title={<span aria-live="polite">{present ? sentence(present) : controlSentence(detail, now)}</span>}>
      <div className="inner">
        <Fault of={error} />
        {present ? <Stages suspension={present} later={undefined} isPresent /> : <ResumeStages detail={detail} />}
      </div>
      {earlier.length > 0 && (
        <div className={css.earlier}>
          <h3 className="quiet">Earlier suspensions</h3>
          <ul aria-label="Earlier suspensions">
            {earlier.slice(0, isAll ? undefined : shownEarlier).map((one) => (
              <li key={one.version} className="inner">
                <b>{sentence(one)}</b>
                <Stages suspension={one} later={suspensions[suspensions.indexOf(one) - 1]} />
              </li>
            ))}
          </ul>
          {earlier.length > shownEarlier && !isAll && (
            <EmptyState action={<Button onClick={() => setAll(true)}>Show all {earlier.length}</Button>}>
              {earlier.length - shownEarlier} more not shown.
            </EmptyState>
          )}
        </div>
      )}
    </Panel>
  )
}
