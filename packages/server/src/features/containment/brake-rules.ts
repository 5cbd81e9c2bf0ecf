/** What the brake goes by, as one transaction found it. */
export interface BrakeState {
  engaged: boolean
  /** Automatic suspensions within the last minute, and those that last. */
  lastMinute: number
  lasting: number
  /** Instances that sent a heartbeat of late. */
  fleet: number
}

export interface BrakeLimits {
  perMinute: number
  fleetPercent: number
}

/** As many instances may be suspended automatically at a time: one even of a small fleet. */
export const fleetMax = (fleet: number, { fleetPercent }: BrakeLimits): number =>
  Math.max(1, Math.floor((fleet * fleetPercent) / 100))

/** How many instances may be suspended automatically now. */
export function placesLeft({ engaged, lastMinute, lasting, fleet }: BrakeState, limits: BrakeLimits): number {
  if (engaged) return 0
  return Math.max(0, Math.min(limits.perMinute - lastMinute, fleetMax(fleet, limits) - lasting))
}
