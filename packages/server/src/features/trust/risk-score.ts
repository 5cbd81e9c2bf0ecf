import { dayMs } from '../../clock.ts'

/**
 * Risk score, version 1 ("headroom"): every signal uses a share of the headroom that the others leave,
 *
 *   risk = 100 × (1 − Π (1 − pᵢ)),   pᵢ = ceilingᵢ × (1 − 2^(−xᵢ / halfᵢ)),
 *
 * so the score never exceeds 100, no signal offsets another, and the ceiling limits how far one signal can raise the
 * score: warnings alone never leave "low", and one breach of the last 24 hours is always "high".
 * 0 is best, 100 is worst.
 */

export type RiskTier = 'low' | 'moderate' | 'elevated' | 'high' | 'critical'

export type RiskFactor = 'breach' | 'critical' | 'incident' | 'suspended' | 'injection' | 'warning'

/** Each event counts only in its most severe bucket. */
export type RiskInputs = {
  /** Breaches of the last 30 days, aged by `decayedBreaches`. */
  breach: number
  /** Critical events of the last 24 hours. */
  critical: number
  /** Runtime incidents of the last 30 days that count neither as a breach nor as critical. */
  incident: number
  suspended: number
  /** Monitored agents, including suspended ones. */
  agents: number
  /** Injection blocks of the last 24 hours. */
  injection: number
  /** Warnings of the last 24 hours other than injection blocks. */
  warning: number
}

export type RiskScore = { score: number; tier: RiskTier; points: Record<RiskFactor, number> }

const breachHalfLifeDays = 7
const breachWindowDays = 30
const suspendedCeiling = 0.5

/** Computes the score. `points` splits it by factor and adds up to it. */
export function riskScore(inputs: RiskInputs): RiskScore {
  const shares: Record<RiskFactor, number> = {
    breach: saturating(inputs?.breach, 0.95, 0.6),
    critical: saturating(inputs?.critical, 0.75, 2),
    incident: saturating(inputs?.incident, 0.6, 4),
    suspended: suspendedCeiling * suspendedRatio(inputs?.suspended, inputs?.agents),
    injection: saturating(inputs?.injection, 0.3, 20),
    warning: saturating(inputs?.warning, 0.2, 25),
  }
  const headroom = Object.values(shares).reduce((left, share) => left * (1 - share), 1)
  const score = Math.min(100, Math.max(0, Math.round(100 * (1 - headroom))))
  return { score, tier: riskTier(score), points: apportion(score, shares) }
}

/**
 * Counts the breaches of the last 30 days, each worth half as much every 7 days. A negative age (a clock that jumped)
 * or an invalid one counts as fresh: uncertainty must not lower the score.
 */
export function decayedBreaches(list: readonly { ageMs: number; count: number }[]): number {
  return list.reduce((sum, breach) => {
    const ageDays = amount(breach.ageMs) / dayMs
    return ageDays > breachWindowDays ? sum : sum + amount(breach.count) * 2 ** (-ageDays / breachHalfLifeDays)
  }, 0)
}

/** Returns the tier of a score from 0 to 100. NaN is "critical", never "low". */
export function riskTier(score: number): RiskTier {
  if (score <= 20) return 'low'
  if (score <= 40) return 'moderate'
  if (score <= 60) return 'elevated'
  if (score <= 80) return 'high'
  return 'critical'
}

const labels: Record<RiskTier, string> = {
  low: 'Low risk',
  moderate: 'Moderate risk',
  elevated: 'Elevated risk',
  high: 'High risk',
  critical: 'Critical risk',
}

export function riskTierLabel(tier: RiskTier): string {
  return labels[tier]
}

/** Returns half of the ceiling at `half`, and approaches the ceiling for large counts. */
function saturating(count: unknown, ceiling: number, half: number): number {
  return ceiling * (1 - 2 ** (-amount(count) / half))
}

function suspendedRatio(suspended: unknown, agents: unknown): number {
  const all = amount(agents)
  if (all === 0) return 0
  const some = amount(suspended)
  return some >= all ? 1 : some / all
}

/** Keeps Infinity, as the limit of a large count. Returns 0 for anything but a positive number. */
function amount(value: unknown): number {
  return typeof value === 'number' && value > 0 ? value : 0
}

/**
 * Splits the score into whole points, in proportion to the logarithm of the headroom that each factor leaves
 * (logarithms turn the product into a sum). Points lost to rounding down go to the largest remainders.
 */
function apportion(score: number, shares: Record<RiskFactor, number>): Record<RiskFactor, number> {
  const points: Record<RiskFactor, number> = {
    breach: 0,
    critical: 0,
    incident: 0,
    suspended: 0,
    injection: 0,
    warning: 0,
  }
  const factors = Object.keys(points) as RiskFactor[]
  const weights = factors.map((factor) => ({ factor, weight: -Math.log1p(-shares[factor]) }))
  const total = weights.reduce((sum, { weight }) => sum + weight, 0)
  if (total === 0) return points

  const exact = weights.map(({ factor, weight }) => ({ factor, exact: (score * weight) / total }))
  for (const part of exact) points[part.factor] = Math.floor(part.exact)
  const missing = score - factors.reduce((sum, factor) => sum + points[factor], 0)
  const byRemainder = exact.toSorted((a, b) => (b.exact % 1) - (a.exact % 1))
  for (const { factor } of byRemainder.slice(0, missing)) points[factor] += 1
  return points
}
