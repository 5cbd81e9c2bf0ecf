import { useQuery } from '@tanstack/react-query'
import { counted } from '../parts/counted.ts'
import { fleetQuery, useSuspendedAgents } from '../service/fleet.ts'
import { countsOf } from '../service/fleet-counts.ts'

/** Stays as long as several agents are suspended: a fleet that was stopped must not be forgotten. */
export function SuspendedBanner() {
  const { data } = useQuery(fleetQuery)
  const details = useSuspendedAgents()
  const { suspended, all } = countsOf(data ?? [])
  const unconfirmed = [...details.values()].filter(({ control }) => !control.confirmed).length
  if (suspended < 2) return null
  return (
    <p className="notice suspended banner">
      {counted(suspended, 'agent')} of {all.toLocaleString('en')} are suspended until an operator resumes them
      {unconfirmed > 0 ? `; ${unconfirmed} of them may still be working` : ''}.
    </p>
  )
}
