import { useQuery } from '@tanstack/react-query'
import { counted } from '../parts/counted.ts'
import { fleetQuery } from '../service/fleet.ts'
import { countsOf } from '../service/fleet-counts.ts'

/** Stays as long as several agents are suspended: a fleet that was stopped must not be forgotten. */
export function SuspendedBanner() {
  const { data } = useQuery(fleetQuery)
  const { suspended, all } = countsOf(data ?? [])
  if (suspended < 2) return null
  return (
    <p className="notice suspended banner">
      {counted(suspended, 'agent')} of {all.toLocaleString('en')} {suspended === 1 ? 'is' : 'are'} suspended and{' '}
      {suspended === 1 ? 'does' : 'do'} no work until resumed.
    </p>
  )
}
