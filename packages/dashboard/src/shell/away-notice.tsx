import { useLocation } from '@tanstack/react-router'
import { spanText } from '../parts/span.ts'
import { useNow } from '../parts/time.tsx'
import { useLiveState } from '../service/live.ts'

/** A restart is over by then. */
const patienceMs = 5_000

/** Without the service every screen shows what was true before; the heading of the overview says so itself. */
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
