import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { counted } from '@wardline/text/counted'
import { containmentHeading } from '../containments/containment-texts.ts'
import { brakeQuery, containmentsQuery } from '../service/containments.ts'
import { fleetQuery } from '../service/fleet.ts'
import { countsOf } from '../service/fleet-counts.ts'
import { openContainments } from '../service/open-containments.ts'

/**
 * Shown on every screen while several agents are suspended, a containment is open, a resume waits or the brake is
 * engaged, so that none of them is forgotten.
 */
export function ContainmentBanner() {
  const { data: fleet = [] } = useQuery(fleetQuery)
  const { data } = useQuery(containmentsQuery)
  const { data: brake } = useQuery(brakeQuery)
  const [open, ...others] = openContainments(data?.containments ?? [], fleet)
  const waiting = data?.resume_requests.length ?? 0
  const { suspended, unconfirmed, all } = countsOf(fleet)
  const isFleet = suspended > 1
  const isBraked = brake?.engaged ?? false
  if (!open && waiting === 0 && !isFleet && !isBraked) return null
  const isCalm = !isBraked && (!open || open.state === 'in_progress')
  return (
    <div className={`notice banner ${isCalm ? 'suspended' : ''}`}>
      {isBraked && (
        <p>
          The brake is engaged: nothing is suspended automatically until an operator releases it.{' '}
          <Link to="/containments">Open the brake</Link>
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
          <Link to="/containments">Open {waiting === 1 ? 'it' : 'them'}</Link>
        </p>
      )}
      {isFleet && (
        <p>
          {counted(suspended, 'agent')} of {all.toLocaleString('en')} are suspended until an operator resumes them
          {unconfirmed > 0 ? `; ${unconfirmed.toLocaleString('en')} of them may still be working` : ''}.
        </p>
      )}
    </div>
  )
}
