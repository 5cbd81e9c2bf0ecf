import { hasSharedStream, useLiveState } from '../data/live.ts'
import { spanText } from '../ui/span.ts'
import { useNow } from '../ui/time.tsx'
import css from './live-mark.module.css'

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
  const look = phase === 'live' ? css.live : phase === 'connecting' ? '' : css.lost
  return (
    <span
      className={`${css.mark} ${look}`}
      role="status"
      title={hasSharedStream ? 'All tabs of this browser share one stream' : 'Each tab has its own stream'}
    >
      <svg viewBox="0 0 12 12" aria-hidden="true">
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
          · updated {age < 1_000 ? 'now' : `${spanText(age)} ago`}
        </span>
      )}
    </span>
  )
}
