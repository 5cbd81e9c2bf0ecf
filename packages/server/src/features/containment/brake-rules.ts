/** Figures on which the brake decides, read in one transaction. */
export interface BrakeState {
  engaged: boolean
  /** Automatic suspensions within the last minute, and ongoing ones. */
  lastMinute: number
  lasting: number
  /** Instances with a recent heartbeat. */
  fleet: number
}

export interface BrakeLimits {
  perMinute: number
  fleetPercent: number
}

/** Returns how many instances may be suspended automatically at a time: at least one, even in a small fleet. */
export const fleetMax = (fleet: number, { fleetPercent }: BrakeLimits): number =>
  Math.max(1, Math.floor((fleet * fleetPercent) / 100))

/** Returns how many more instances may be suspended automatically now. */
export function placesLeft({ engaged, lastMinute, lasting, fleet }: BrakeState, limits: BrakeLimits): number {
  if (engaged) return 0
  return Math.max(0, Math.min(limits.perMinute - lastMinute, fleetMax(fleet, limits) - lasting))
}
