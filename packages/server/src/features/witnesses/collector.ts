import { minuteMs } from '../../clock.ts'

/** What telemetry shows of an agent while it works: calls since an instant are missing, or it showed a call of that instant. */
export type TelemetryState = { silentSince: number } | { shownAt: number }

/** Agents whose telemetry a shared collector lost. */
export interface Outage {
  /** When the first of their calls was received. */
  since: number
  silent: number
  /** Agents whose telemetry shows later calls. */
  heard: number
}

/** Fewer agents are reported one by one. */
const minSilent = 5
/** Agents that fall silent together. Of agents that rarely work, each shows it with its next calls. */
const togetherMs = 30 * minuteMs

/**
 * Returns the outage of a collector: five agents or more fell silent together, and they are more than half of those that have
 * worked since. A single missing call of each is enough, because calls of many agents are not lost together by accident.
 */
export function outageOf(states: readonly TelemetryState[]): Outage | undefined {
  const silent = states.flatMap((state) => ('silentSince' in state ? [state.silentSince] : [])).sort((a, b) => a - b)
  if (silent.length < minSilent) return undefined
  const shown = states.flatMap((state) => ('shownAt' in state ? [state.shownAt] : [])).sort((a, b) => a - b)
  let before = 0
  for (let first = 0; first + minSilent <= silent.length; first++) {
    const since = silent[first]!
    if (silent[first + minSilent - 1]! - since > togetherMs) continue
    while (before < shown.length && shown[before]! <= since) before += 1
    const heard = shown.length - before
    if (silent.length - first > heard) return { since, silent: silent.length - first, heard }
  }
  return undefined
}

/**
 * Whether a mismatch of telemetry may be the beginning of an outage, and waits for others: another agent is silent as well, and
 * of none telemetry was heard since.
 */
export const mayBeOutage = (since: number, states: readonly TelemetryState[], now: number): boolean =>
  now - since < togetherMs &&
  states.filter((state) => 'silentSince' in state).length > 1 &&
  !states.some((state) => 'shownAt' in state && state.shownAt > since)
