import { eventRate, useLiveState } from '../service/live.ts'
import { useNow } from './time.tsx'

interface TailFactsProps {
  streamed: { came: number; skipped: number } | undefined
  onShowAll?(): void
}

/** How fast events come, and how many of them a list passed over. */
export function TailFacts({ streamed, onShowAll }: TailFactsProps) {
  const rate = eventRate(useNow())
  const { phase } = useLiveState()
  if (phase !== 'live') return null
  const number = rate >= 10 ? Math.round(rate).toLocaleString('en') : rate.toFixed(1)
  return (
    <span className="quiet">
      {number} a second
      {streamed !== undefined && streamed.skipped > 0 && (
        <>
          {` · a sample: of ${streamed.came.toLocaleString('en')} that came, ${streamed.skipped.toLocaleString('en')} are not listed `}
          {onShowAll && (
            <button type="button" className="plain" onClick={onShowAll}>
              Show all
            </button>
          )}
        </>
      )}
    </span>
  )
}
