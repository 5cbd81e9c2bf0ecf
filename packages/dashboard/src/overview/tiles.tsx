import { Link } from '@tanstack/react-router'
import type { SeverityCounts } from '@wardline/contract'
import type { Agent } from '../service/fleet.ts'
import { countsOf } from '../service/fleet-counts.ts'

const number = (value: number | undefined) => (value === undefined ? '…' : value.toLocaleString('en'))

/** Counts, each linked to the list that it counts. */
export function Tiles({ fleet, stats }: { fleet: readonly Agent[] | undefined; stats: SeverityCounts | undefined }) {
  const counts = fleet && countsOf(fleet)
  return (
    <nav className="panel tiles" aria-label="Counts">
      <Link to="/fleet" search={{ status: 'active' }}>
        <b>{number(counts?.active)}</b> active
      </Link>
      <Link to="/fleet" search={{ status: 'offline' }}>
        <b>{number(counts?.offline)}</b> offline
      </Link>
      <Link to="/fleet" search={{ status: 'suspended' }}>
        <b className={counts?.suspended ? 'violet' : ''}>{number(counts?.suspended)}</b> suspended
        {counts !== undefined && counts.unconfirmed > 0 && (
          <span className="critical">, {number(counts.unconfirmed)} not confirmed</span>
        )}
      </Link>
      {(['breach', 'critical', 'warning'] as const).map((severity) => (
        <Link key={severity} to="/events" search={{ severity, last: '24h' }}>
          <b className={stats?.[severity] ? severity : ''}>{number(stats?.[severity])}</b> {severity}, 24 h
        </Link>
      ))}
    </nav>
  )
}
