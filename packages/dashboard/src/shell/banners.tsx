import { useQuery } from '@tanstack/react-query'
import { Link, useLocation } from '@tanstack/react-router'
import { counted } from '@wardline/text/counted'
import { containmentHeading, unprovenText } from '../containments/containment-texts.ts'
import { brakeQuery, containmentsQuery } from '../data/containments.ts'
import { summaryQuery } from '../data/fleet.ts'
import { countsOf } from '../data/fleet-counts.ts'
import { useLiveState } from '../data/live.ts'
import { openContainments } from '../data/open-containments.ts'
import { Notice } from '../ui/panel.tsx'
import { spanText } from '../ui/span.ts'
import { useNow } from '../ui/time.tsx'

/** Longer than a restart takes. */
const patienceMs = 5_000

/** Warns that the screen shows outdated data while the service is unreachable. On the overview, the heading says so. */
export function AwayNotice() {
  const { phase, heardAt } = useLiveState()
  const now = useNow()
  const { pathname } = useLocation()
  if (phase !== 'waiting' || heardAt === undefined || now - heardAt < patienceMs || pathname === '/') return null
  return (
    <Notice>
      <p role="status">No answer from the service. Data is {spanText(now - heardAt)} old.</p>
    </Notice>
  )
}

/**
 * Shown on every screen while something is in progress or unproven: a suspension, a containment, a resume that waits, or
 * the engaged brake. How many agents are suspended stands in the navigation.
 */
export function ContainmentBanner() {
  const { data: fleet } = useQuery(summaryQuery())
  const { data } = useQuery(containmentsQuery)
  const { data: brake } = useQuery(brakeQuery)
  const all = fleet && countsOf(fleet.state.counts)
  const [open, ...others] = all ? openContainments(data?.containments ?? [], all) : []
  const waiting = data?.resume_requests.length ?? 0
  // The queue of the overview names those that have not confirmed, and says it once.
  const isNamedBelow = useLocation().pathname === '/'
  const { unproven = 0, unconfirmed = 0, awaited = 0 } = all ?? {}
  const named = isNamedBelow ? awaited : 0
  const counts = { unproven: unproven - named, unconfirmed: unconfirmed - named }
  const isBraked = brake?.engaged ?? false
  if (!open && waiting === 0 && counts.unproven === 0 && !isBraked) return null
  const isCalm = !isBraked && (!open || open.state === 'in_progress')
  return (
    <div className="banner">
      <Notice kind={isCalm ? 'suspended' : 'warning'}>
        {isBraked && (
          <p>
            The brake is engaged: nothing is suspended automatically until an operator releases it.{' '}
            <Link to="/containments">Show the brake</Link>
          </p>
        )}
        {open && (
          <p>
            {containmentHeading(open)}.{' '}
            <Link to="/containments/$id" params={{ id: open.id }}>
              Open this containment
            </Link>
            {others.length > 0 && <Link to="/containments"> and {others.length} more</Link>}
          </p>
        )}
        {waiting > 0 && (
          <p>
            {counted(waiting, 'resume')} wait{waiting === 1 ? 's' : ''} for a second operator.{' '}
            <Link to="/containments">Open the requests</Link>
          </p>
        )}
        {counts.unproven > 0 && (
          <p>
            {unprovenText(counts)}{' '}
            <Link to="/fleet" search={{ status: 'suspended' }}>
              Show suspended agents
            </Link>
          </p>
        )}
      </Notice>
    </div>
  )
}
