/** Returns the p-th quantile (0 to 1) of ascending values by the nearest-rank rule; NaN without values. */
export function quantile(sorted: ArrayLike<number>, p: number): number {
  if (sorted.length === 0) return Number.NaN
  return sorted[Math.min(sorted.length - 1, Math.max(0, Math.ceil(p * sorted.length) - 1))]!
}

/** Returns the median; NaN without values. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  if (sorted.length % 2 === 1) return sorted[middle]!
  return sorted.length === 0 ? Number.NaN : (sorted[middle - 1]! + sorted[middle]!) / 2
}

/** Milliseconds since the epoch, with fractions: what two processes of one machine can compare. */
export const preciseNow = (): number => performance.timeOrigin + performance.now()
