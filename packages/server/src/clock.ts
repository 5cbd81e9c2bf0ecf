/** The only place that reads time. Operations read it once and pass the value on. */
export interface Clock {
  /** Wall time in epoch milliseconds. */
  now(): number
  /** Milliseconds that never jump, for measuring lengths of time. */
  monotonic(): number
}

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
}

/** A clock that stands still until it is moved. */
export function manualClock(startMs = Date.UTC(2026, 0, 15, 12, 0, 30)): Clock & { advance(ms: number): void } {
  let current = startMs
  return {
    now: () => current,
    monotonic: () => current,
    advance(ms) {
      current += ms
    },
  }
}

export const isoTime = (epochMs: number): string => new Date(epochMs).toISOString()
