import { useLiveState } from '../service/live.ts'
import type { Tail } from '../service/live-tail.ts'
import { useNow } from './time.tsx'

interface TailFactsProps {
  tail: Tail
  /** Number of rows that the list skipped, by the id of the row below them. */
  skipped: Readonly<Record<string, number>> | undefined
  onShowAll?(): void
}

/** The rate of events, and how many of them the list skipped. */
export function TailFacts({ tail, skipped = {}, onShowAll }: TailFactsProps) {
  const rate = tail.perSecond(useNow())
  const { phase } = useLiveState()
  if (phase !== 'live') return null
  const number = rate >= 10 ? Math.round(rate).toLocaleString('en') : rate.toFixed(1)
  const left = Object.values(skipped).reduce((sum, count) => sum + count, 0)
  return (
    <span className="quiet">
      {number} a second
      {left > 0 && (
        <>
          {` · a sample: of ${tail.received.toLocaleString('en')} that came, ${left.toLocaleString('en')} are not listed `}
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
