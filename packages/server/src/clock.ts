export const minuteMs = 60_000
export const hourMs = 3_600_000
export const dayMs = 86_400_000

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

/** A clock that stands still until it is moved: `advance` lets time pass, `jump` sets the wall clock alone. */
export function manualClock(
  startMs = Date.UTC(2026, 0, 15, 12, 0, 30),
): Clock & { advance(ms: number): void; jump(ms: number): void } {
  let wall = startMs
  let passed = 0
  return {
    now: () => wall,
    monotonic: () => passed,
    advance(ms) {
      wall += ms
      passed += ms
    },
    jump(ms) {
      wall += ms
    },
  }
}

export const isoTime = (epochMs: number): string => new Date(epochMs).toISOString()

export const isoTimeOrNull = (epochMs: number | null): string | null => (epochMs === null ? null : isoTime(epochMs))
