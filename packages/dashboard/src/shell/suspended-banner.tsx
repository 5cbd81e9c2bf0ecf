import { useQuery } from '@tanstack/react-query'
import { counted } from '@wardline/text/counted'
import { fleetQuery } from '../service/fleet.ts'
import { countsOf } from '../service/fleet-counts.ts'

/** Stays as long as several agents are suspended: a fleet that was stopped must not be forgotten. */
export function SuspendedBanner() {
  const { data } = useQuery({ ...fleetQuery, select: countsOf })
  if (!data || data.suspended < 2) return null
  const { suspended, unconfirmed, all } = data
  return (
    <p className="notice suspended banner">
      {counted(suspended, 'agent')} of {all.toLocaleString('en')} are suspended until an operator resumes them
      {unconfirmed > 0 ? `; ${unconfirmed.toLocaleString('en')} of them may still be working` : ''}.
    </p>
  )
}
