import { hasSharedStream, useLiveState } from '../data/live.ts'
import { spanText } from '../ui/span.ts'
import { useNow } from '../ui/time.tsx'

const looks = {
  connecting: { words: 'Connecting…', colour: '' },
  live: { words: 'Live', colour: '' },
  waiting: { words: 'Reconnecting…', colour: 'critical' },
  'signed-out': { words: 'Signed out', colour: 'critical' },
} as const

/** Shows whether the stream is open, and the age of the last message. */
export function LiveMark() {
  const { phase, heardAt } = useLiveState()
  const { words, colour } = looks[phase]
  const now = useNow()
  const age = heardAt === undefined ? undefined : now - heardAt
  return (
    <span
      className={`chips ${colour}`}
      role="status"
      title={hasSharedStream ? 'All tabs of this browser share one stream.' : 'Each tab has its own stream.'}
    >
      <span className={phase === 'live' ? 'ok' : ''} aria-hidden="true">
        {phase === 'live' ? '●' : '○'}
      </span>
      <span>{words}</span>
      {age !== undefined && phase !== 'signed-out' && (
        <span className="quiet" aria-hidden="true">
          · <span className="fine-pointer">updated </span>
          {age < 1_000 ? 'now' : `${spanText(age)} ago`}
        </span>
      )}
    </span>
  )
}
