/**
 * What a metric usually shows: a histogram whose buckets are as wide as their values are large. It forgets slowly, and
 * everything is computed from it: ranges, and how likely a value is by the tail of the distribution.
 */
export interface Summary {
  /** The mean of each bucket, ascending. */
  values: number[]
  weights: number[]
  /** The sum of the weights. */
  total: number
}

export const emptySummary: Summary = { values: [], weights: [], total: 0 }

/** Buckets differ by 15 %: small counts have one each, and a range of 1 to 1,000 takes fifty at most. */
const logWidth = Math.log(1.15)
/** Buckets with less weight are removed. */
const minWeight = 0.01

/** A value whose sums overflow would leave infinity behind, and with it a blind detector. */
export function bounded(value: number): number {
  return Math.min(Number.MAX_SAFE_INTEGER, Math.max(-Number.MAX_SAFE_INTEGER, value))
}

/** Returns the bucket of a value: logarithmic, linear near 0. */
export function bucketOf(value: number): number {
  const index = Math.round(Math.log1p(Math.abs(value)) / logWidth)
  return value < 0 ? -index : index
}

/** Returns the lowest value of a bucket. */
function edgeOf(bucket: number): number {
  const edge = Math.expm1((Math.abs(bucket) + (bucket > 0 ? -0.5 : 0.5)) * logWidth)
  return bucket > 0 ? edge : -edge
}

/**
 * Adds a value; all that was there before weighs `keep` as much as it did. Beyond `maxBuckets`, the lowest two that are
 * neighbours become one: the upper end is what samples are judged by.
 */
export function learn(summary: Summary, value: number, weight: number, keep: number, maxBuckets: number): Summary {
  const bucket = bucketOf(value)
  const from = edgeOf(bucket)
  const below = edgeOf(bucket + 1)
  const values: number[] = []
  const weights: number[] = []
  let total = 0
  let isPlaced = false
  const { length } = summary.values
  for (let index = 0; index < length; index++) {
    let mean = summary.values[index]!
    let kept = summary.weights[index]! * keep
    if (!isPlaced && mean >= from) {
      isPlaced = true
      if (mean < below) {
        mean += ((value - mean) * weight) / (kept + weight)
        kept += weight
      } else {
        values.push(value)
        weights.push(weight)
        total += weight
      }
    }
    if (kept < minWeight) continue
    values.push(mean)
    weights.push(kept)
    total += kept
  }
  if (!isPlaced) {
    values.push(value)
    weights.push(weight)
    total += weight
  }
  if (values.length > maxBuckets) joinLowest(values, weights)
  return { values, weights, total }
}

function joinLowest(values: number[], weights: number[]): void {
  const [first = 0, second = 0] = values
  const weight = weights[0]! + weights[1]!
  values.splice(0, 2, first + ((second - first) * weights[1]!) / weight)
  weights.splice(0, 2, weight)
}

/** Merges two summaries, each weighted by its factor. */
export function merge(one: Summary, factor: number, other: Summary, otherFactor: number, maxBuckets: number): Summary {
  let merged: Summary = {
    values: one.values,
    weights: one.weights.map((weight) => weight * factor),
    total: one.total * factor,
  }
  for (const [index, value] of other.values.entries()) {
    const weight = other.weights[index]! * otherFactor
    if (weight >= minWeight) merged = learn(merged, value, weight, 1, maxBuckets)
  }
  return merged
}

/** The smallest value that at least this share of the weight does not exceed; 0 for an empty summary. */
export function quantile({ values, weights, total }: Summary, share: number): number {
  let rest = total * share * (1 - 1e-9)
  for (let index = 0; index < values.length; index++) {
    rest -= weights[index]!
    if (rest <= 0) return values[index]!
  }
  return values.at(-1) ?? 0
}

/** The tail beyond a high quantile, as a generalized Pareto distribution of fixed shape. */
export interface Tail {
  /** Where the tail begins. */
  threshold: number
  /** How much of the distribution lies beyond. */
  share: number
  scale: number
}

const thresholdShare = 0.9
/** Minimum weight of a tail without samples. */
const minShare = 0.02
/**
 * Heavier than that of counts and of most times and sizes, so that what is estimated from few samples errs towards
 * silence. An estimated shape is noise at these sizes: see ADR 0043.
 */
const shape = 0.25
/** Metrics count things: the tail of a constant one still has about the width of one step, or 5 % of a large number. */
const minScale = 0.75
const minScaleShare = 0.05
/** Rarer excesses than this quantile count for at most so many times as much: an absurd value must not widen the tail. */
const widestShare = 0.995
const widestFactor = 50

/** Peaks over threshold: the tail is fitted to how far values exceed the 90th percentile. */
export function tailOf(summary: Summary): Tail {
  const { values, weights, total } = summary
  const threshold = quantile(summary, thresholdShare)
  let first = values.length
  while (first > 0 && values[first - 1]! > threshold) first--
  let beyond = 0
  for (let index = first; index < values.length; index++) beyond += weights[index]!
  const floor = Math.max(minScale, minScaleShare * Math.abs(threshold))
  if (beyond === 0) return { threshold, share: minShare, scale: floor }
  const maximum = widestFactor * Math.max(floor, quantile(summary, widestShare) - threshold)
  let excess = 0
  for (let index = first; index < values.length; index++) {
    excess += weights[index]! * Math.min(maximum, values[index]! - threshold)
  }
  return {
    threshold,
    share: Math.max(minShare, beyond / total),
    scale: Math.max(floor, (excess / beyond) * (1 - shape)),
  }
}

/** Returns the probability of a value at least this high; 1 below the start of the tail. */
export function exceedance({ threshold, share, scale }: Tail, value: number): number {
  return value > threshold ? share * (1 + (shape * (value - threshold)) / scale) ** (-1 / shape) : 1
}

/** Returns the value whose `exceedance` is `p`. */
export function levelAt({ threshold, share, scale }: Tail, p: number): number {
  return p >= share ? threshold : threshold + (scale / shape) * ((p / share) ** -shape - 1)
}
