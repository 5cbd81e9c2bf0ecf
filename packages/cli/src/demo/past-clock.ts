import type { Clock } from '@wardline/server'

/** The clock of this machine, behind by an amount that only shrinks: time passes, faster or as usual, and never jumps back. */
export interface PastClock extends Clock {
  /** Lets the time until then pass at once. */
  moveTo(time: number): void
  /** From now on this is the clock of this machine. */
  moveToPresent(): void
}

export function pastClock(startMs: number): PastClock {
  const first = Date.now() - Math.floor(startMs)
  let behind = first
  return {
    now: () => Date.now() - behind,
    monotonic: () => performance.now() + first - behind,
    moveTo(time) {
      behind = Math.max(0, Math.min(behind, Date.now() - Math.floor(time)))
    },
    moveToPresent() {
      behind = 0
    },
  }
}
