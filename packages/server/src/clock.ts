export const minuteMs = 60_000
export const hourMs = 3_600_000
export const dayMs = 86_400_000

/** The start of the unit of time that an instant lies in. */
export const startOf = (time: number, unitMs: number): number => time - (time % unitMs)
/** The first start of a unit that is not before the instant. */
export const ceilingOf = (time: number, unitMs: number): number => startOf(time + unitMs - 1, unitMs)

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

export const isoTime = (epochMs: number): string => new Date(epochMs).toISOString()

export const isoTimeOrNull = (epochMs: number | null): string | null => (epochMs === null ? null : isoTime(epochMs))
