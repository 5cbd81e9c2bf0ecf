import { useLiveState } from '../data/live.ts'
import type { Tail } from '../data/live-tail.ts'
import { Button } from '../ui/button.tsx'
import { useNow } from '../ui/time.tsx'

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
      {/* A rate is known once an event has arrived. */}
      {tail.received > 0 && `${number} events/s`}
      {left > 0 && (
        <>
          {` · sampled: ${left.toLocaleString('en')} of ${tail.received.toLocaleString('en')} not shown `}
          {onShowAll && (
            <Button kind="plain" onClick={onShowAll}>
              Show all
            </Button>
          )}
        </>
      )}
    </span>
  )
}
