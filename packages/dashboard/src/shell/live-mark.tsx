import { spanText } from '../parts/span.ts'
import { useNow } from '../parts/time.tsx'
import { hasSharedStream, useLiveState } from '../service/live.ts'

const words = {
  connecting: 'Connecting…',
  live: 'Live',
  waiting: 'Reconnecting…',
  'signed-out': 'Signed out',
} as const

/** Shows whether the stream is open, and the age of the last message. */
export function LiveMark() {
  const { phase, heardAt } = useLiveState()
  const now = useNow()
  const age = heardAt === undefined ? undefined : now - heardAt
  return (
    <span
      className={`live ${phase}`}
      role="status"
      title={
        hasSharedStream
          ? 'One stream serves all tabs of this browser.'
          : 'This browser has no shared workers: each tab has a stream.'
      }
    >
      <svg viewBox="0 0 12 12" aria-hidden="true" width="9" height="9">
        <circle
          cx="6"
          cy="6"
          r="4.6"
          fill={phase === 'live' ? 'currentColor' : 'none'}
          stroke="currentColor"
          strokeWidth="2"
        />
      </svg>
      <span>{words[phase]}</span>
      {age !== undefined && phase !== 'signed-out' && (
        <span className="quiet" aria-hidden="true">
          · heard {age < 1_000 ? 'now' : `${spanText(age)} ago`}
        </span>
      )}
    </span>
  )
}
