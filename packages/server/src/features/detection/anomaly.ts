/**
 * Anomalies of the numbers that an agent reports about its sessions, each judged against the baseline of the same
 * instance and metric.
 *
 * Limits, by design. The numbers are the agent's own, so this finds an agent that runs away, not one that lies. A level
 * that rises slowly enough is learnt along the way. An anomalous sample does not teach, so a level that is higher for
 * good reasons raises an anomaly at every report until the baseline is forgotten and learnt again from its first
 * samples: a rule that accepted the new level after a while would accept a patient intruder too.
 */

/** `m2` is the sum of the squared distances from the mean. */
export type Baseline = { samples: number; mean: number; m2: number }

export type Anomaly = {
  z: number
  mean: number
  /** The deviation that `z` was computed with, the floor included. */
  deviation: number
  samples: number
  severity: 'warning' | 'critical'
}

/** Fewer samples say too little about what is usual. */
const samplesNeeded = 10
const warningZ = 3
const criticalZ = 5

/**
 * Judges a sample: null when it is usual or when the baseline is still too young. Only a value above the baseline
 * is abuse; an agent that does less is the business of the heartbeat.
 */
export function scoreSample(baseline: Baseline | null, value: number): Anomaly | null {
  if (baseline === null || baseline.samples < samplesNeeded) return null
  const { samples, mean } = baseline
  const deviation = deviationOf(baseline)
  const z = (bounded(value) - mean) / deviation
  if (z < warningZ) return null
  return { z, mean, deviation, samples, severity: z >= criticalZ ? 'critical' : 'warning' }
}

/**
 * Adds a sample to the baseline (Welford's method, which stays exact where a sum of squares would cancel out).
 * The caller learns only what `scoreSample` found usual.
 */
export function learn(baseline: Baseline | null, value: number): Baseline {
  const before = baseline ?? { samples: 0, mean: 0, m2: 0 }
  const sample = bounded(value)
  const samples = before.samples + 1
  const distance = sample - before.mean
  const mean = before.mean + distance / samples
  return { samples, mean, m2: before.m2 + distance * (sample - mean) }
}

/** Below this share of the mean a deviation is what rounding left of a constant baseline. */
const roundingShare = 1e-9

/**
 * The sample deviation; after a constant baseline, which has none, 1 or 5 % of the mean, whichever is more. The metrics
 * count things, so that 1 is the smallest step there is: after a constant 5, a 6 is no news (z = 1), an 8 is a warning,
 * a 10 is critical. The 5 % are the same for large numbers: after a constant 1,000, a 1,001 is no news either. A metric
 * that lives between 0 and 1 is best reported in percent or in thousandths.
 */
function deviationOf({ samples, mean, m2 }: Baseline): number {
  const deviation = Math.sqrt(m2 / (samples - 1))
  if (deviation > roundingShare * Math.abs(mean)) return deviation
  return Math.max(1, 0.05 * Math.abs(mean))
}

/** A value whose square overflows would leave a deviation of Infinity behind, and with it a blind detector. */
export function bounded(value: number): number {
  return Math.min(Number.MAX_SAFE_INTEGER, Math.max(-Number.MAX_SAFE_INTEGER, value))
}
