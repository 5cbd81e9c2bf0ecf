export const minuteMs = 60_000
export const hourMs = 3_600_000
export const dayMs = 86_400_000

/** Returns the start of the unit (such as a day, in UTC) that contains the time. */
export const startOf = (time: number, unitMs: number): number => time - (time % unitMs)
/** Returns the first start of a unit at or after the time. */
export const ceilingOf = (time: number, unitMs: number): number => startOf(time + unitMs - 1, unitMs)

/** The only source of time. Operations read it once and pass the value on. */
export interface Clock {
  /** Wall time in epoch milliseconds. */
  now(): number
  /** Milliseconds that never jump, for measuring durations. */
  monotonic(): number
}

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
}

export const isoTime = (epochMs: number): string => new Date(epochMs).toISOString()

export const isoTimeOrNull = (epochMs: number | null): string | null => (epochMs === null ? null : isoTime(epochMs))
