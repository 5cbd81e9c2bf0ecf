import type { OwnerCount } from '../instances/control-statements.ts'

/** Figures on which the brake decides, read in one transaction. */
export interface BrakeState {
  engaged: boolean
  /** Instances suspended automatically within the last minute. One that is suspended again and again counts once. */
  lastMinute: ReadonlySet<string>
  /** Instances that are suspended automatically now. */
  lasting: number
  fleet: number
}

export interface BrakeLimits {
  perMinute: number
  fleetPercent: number
  /** Instances that may be suspended automatically at a time in a fleet of any size. */
  fleetMin: number
}

/**
 * Counts the fleet: instances with a heartbeat within the last day. The holder of a prefix key can register any number,
 * so of such a key no more count than it had a day ago: within that time people see that its fleet grew.
 */
export function fleetOf(counts: readonly OwnerCount[], prefixOwners: ReadonlySet<string>): number {
  const counted = counts.map(({ owner, heard, registeredBefore }) =>
    owner !== null && prefixOwners.has(owner) ? Math.min(heard, Math.max(1, registeredBefore)) : heard,
  )
  return counted.reduce((sum, count) => sum + count, 0)
}

/** Returns how many instances may be suspended automatically at a time. */
export const fleetMax = (fleet: number, { fleetPercent, fleetMin }: BrakeLimits): number =>
  Math.max(fleetMin, Math.floor((fleet * fleetPercent) / 100))

/** Returns the figures after one more instance is suspended automatically; undefined if there is no place for it. */
export function takePlace(state: BrakeState, limits: BrakeLimits, instanceId: string): BrakeState | undefined {
  const lastMinute = new Set(state.lastMinute).add(instanceId)
  const lasting = state.lasting + 1
  const isWithin = lastMinute.size <= limits.perMinute && lasting <= fleetMax(state.fleet, limits)
  return isWithin && !state.engaged ? { ...state, lastMinute, lasting } : undefined
}
