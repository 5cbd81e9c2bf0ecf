import type { Clock } from '../clock.ts'

/** A clock that only moves on demand: `advance` lets time pass, `jump` sets only the wall clock. */
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
