import { baselineLearning } from '@wardline/contract'
import { dayMs, hourMs, minuteMs } from '../../clock.ts'
import { type Drift, learningCap, newDrift } from './drift.ts'
import { isQuietTime, learnTime, newTimes, type Times } from './quiet-times.ts'
import { emptySummary, learn, type Summary, type Tail } from './summary.ts'

export type AnomalySeverity = 'warning' | 'critical'
/** Basis of a judgement: samples of the instance, of agents of the same type or tag, of all agents, or only the size of the sample. */
export type Basis = 'own' | 'type' | 'tag' | 'fleet' | 'none'

/** A summary that a young baseline borrows. */
export interface Borrowed {
  basis: 'type' | 'tag' | 'fleet'
  summary: Summary
}

export interface Episode {
  id: string
  begunAt: number
  /** Time of the last sample that exceeded. */
  lastAt: number
  severity: AnomalySeverity
  peak: number
  /** Number of samples that exceeded, and of those in between that did not. */
  exceeding: number
  calm: number
  /** Samples that did not exceed since the last one that did. */
  calmInRow: number
  candidate: Summary
}

export interface Baseline {
  /** Times of the first and the last sample. */
  since: number
  at: number
  /** Learnt samples, their mean and sum of squared deviations; the weight of old samples is limited. */
  samples: number
  mean: number
  m2: number
  main: Summary
  /** Summary of only those hours in which the metric is always low. */
  quiet: Summary
  times: Times
  highest: number
  highestAt: number
  /** Samples beyond the threshold of the tail, and those of them right after another. */
  beyond: number
  together: number
  wasBeyond: boolean
  /** Samples in a row that exceeded, and how unlikely they are together, in powers of ten. */
  run: number
  evidence: number
  /** Last of them while there is no episode: how it is learnt depends on the next sample. */
  pending: number
  drift: Drift
  /** When a level was last learnt from an episode while none had been for a month, and the alarm level before it. */
  accepted: { at: number; level: number }
  episode: Episode | null
}

/** Explanation of a judgement, for people. */
export interface Grounds {
  basis: Basis
  /** The probability of a value so high; null with the basis none. */
  p: number | null
  usual: { low: number; high: number }
  highest: number
  samples: number
  mean: number
  deviation: number
  z: number
  isQuietTime: boolean
  /** Milliseconds since the previous sample; null for the first. */
  sinceLast: number | null
}

export type EpisodeOutcome = 'over' | 'accepted' | 'reset' | 'silent'
export type Finding =
  | { kind: 'began' | 'rose'; severity: AnomalySeverity; episode: Episode; grounds: Grounds }
  | { kind: 'ended'; outcome: EpisodeOutcome; episode: Episode; endedAt: number }
  /** The usual level rose without an episode: twofold within a day, or slowly. */
  | { kind: 'level'; pace: 'day' | 'slow'; from: number; to: number; grounds: Grounds }

export interface Sample {
  value: number
  at: number
}

/** Weight of a sample, so that an agent that reports more often does not forget faster. */
const unitMs = 5 * minuteMs
/** A sample weighs 1/e after a week, so that every weekday is in the summary. */
const memoryMs = 7 * dayMs
const maxGapMs = hourMs
export const maxWeight = memoryMs / unitMs
export const maxBuckets = { main: 32, quiet: 12, candidate: 10 } as const

export function newBaseline(at: number): Baseline {
  return {
    since: at,
    at,
    samples: 0,
    mean: 0,
    m2: 0,
    main: emptySummary,
    quiet: emptySummary,
    times: newTimes(at),
    highest: 0,
    highestAt: at,
    beyond: 0,
    together: 0,
    wasBeyond: false,
    run: 0,
    evidence: 0,
    pending: 0,
    drift: newDrift(),
    accepted: { at: 0, level: 0 },
    episode: null,
  }
}

export const isMature = ({ samples, since }: Baseline, at: number): boolean =>
  samples >= baselineLearning.samples && at - since >= baselineLearning.ms

/** Judges whether a sample is too high, and by which basis. */
export interface SampleVerdict {
  basis: Basis
  summary: Summary
  tail: Tail | null
  isQuiet: boolean
  p: number | null
  exceeds: boolean
}

/** A sample exceeds when it has less than this probability. */
export const exceedingP = 4e-3

/** Below this share of the mean a deviation is what rounding left of a constant baseline. */
const roundingShare = 1e-9

/** The sample deviation; after a constant baseline, which has none, 1 or 5 % of the mean, whichever is more. */
export function deviationOf({ samples, mean, m2 }: Baseline): number {
  const deviation = Math.sqrt(m2 / Math.max(1, Math.min(samples, maxWeight) - 1))
  if (deviation > roundingShare * Math.abs(mean)) return deviation
  return Math.max(1, 0.05 * Math.abs(mean))
}

/** Learns a sample that exceeded, because it was a single one. */
export function learnPending(baseline: Baseline): void {
  const taught = Math.min(baseline.pending, learningCap(baseline.drift))
  baseline.main = learn(baseline.main, taught, 1, 1, maxBuckets.main)
  baseline.highest = Math.max(baseline.highest, baseline.pending)
  learnMoments(baseline, taught)
}

/** Learns a sample. */
export function learnSample(baseline: Baseline, known: Baseline, { isQuiet }: SampleVerdict, value: number): void {
  const { at } = baseline
  const passed = at - known.at
  const mature = isMature(known, at)
  const weight = mature ? Math.min(1, passed / unitMs) : 1
  if (weight === 0) return
  const { total } = baseline.main
  const keep = Math.min(Math.exp(-Math.min(passed, maxGapMs) / memoryMs), Math.max(0.5, maxWeight / (total + weight)))
  const taught = mature ? Math.min(value, learningCap(known.drift)) : value
  baseline.main = learn(baseline.main, taught, weight, keep, maxBuckets.main)
  if (mature) {
    baseline.times = learnTime(known.times, taught, at)
    if (isQuiet || isQuietTime(known.times, known.main, undefined, at)) {
      baseline.quiet = learn(known.quiet, taught, weight, keep, maxBuckets.quiet)
    }
  }
  if (known.samples === 0 || value >= baseline.highest) {
    baseline.highest = value
    baseline.highestAt = at
  } else if (at - known.highestAt > 30 * dayMs) {
    baseline.highest = baseline.main.values.at(-1)!
    baseline.highestAt = at
  }
  learnMoments(baseline, taught)
}

/** Welford's method, which stays exact where a sum of squares would cancel out; the oldest samples fade. */
function learnMoments(baseline: Baseline, value: number): void {
  const { samples, mean, m2 } = baseline
  const weight = Math.min(samples + 1, maxWeight)
  const distance = value - mean
  baseline.samples = samples + 1
  baseline.mean = mean + distance / weight
  baseline.m2 = m2 * (weight > samples ? 1 : 1 - 1 / weight) + distance * (value - baseline.mean)
}
