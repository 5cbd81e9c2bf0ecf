import { useLocation } from '@tanstack/react-router'
import { spanText } from '../parts/span.ts'
import { useNow } from '../parts/time.tsx'
import { useLiveState } from '../service/live.ts'

/** Longer than a restart takes. */
const patienceMs = 5_000

/** Warns that the screen shows outdated data while the service is unreachable. On the overview, the heading says so. */
export function AwayNotice() {
  const { phase, heardAt } = useLiveState()
  const now = useNow()
  const { pathname } = useLocation()
  if (phase !== 'waiting' || heardAt === undefined || now - heardAt < patienceMs || pathname === '/') return null
  return (
    <p className="notice banner" role="status">
      No answer from the service: what you see is {spanText(now - heardAt)} old.
    </p>
  )
}
