/**
 * Judges the numbers that an agent reports about its sessions, each against the baseline of the same instance and
 * metric. The numbers are the agent's own, so this finds an agent that runs away, not one that lies. ADR 0043 gives the
 * reasons and the measurements.
 */
import { baselineLearning } from '@wardline/contract'
import {
  type AnomalySeverity,
  type Baseline,
  type Borrowed,
  deviationOf,
  exceedingP,
  type Finding,
  type Grounds,
  isMature,
  learnPending,
  learnSample,
  maxWeight,
  newBaseline,
  type Sample,
  type SampleVerdict,
} from './baseline.ts'
import { noteLevel } from './drift.ts'
import { addPending, beginEpisode, continueEpisode } from './episodes.ts'
import { isQuietTime } from './quiet-times.ts'
import { bounded, exceedance, levelAt, quantile, type Summary, tailOf } from './summary.ts'

/** Powers of ten: of two or more samples in a row together, and of a single one. */
const warningEvidence = 5.6
const criticalEvidence = 9.5
const criticalSingle = 8
/** How much is assumed about samples in a row before any was seen: that they are independent. */
const independentPrior = 10

/** The minimum of a gross runaway, as a multiple of the highest sample, each plus a little for counts near 0. */
const grossFactor = 6.5
const grossFloor = 5
const grossDeviations = 5

interface Judged {
  baseline: Baseline
  findings: Finding[]
}

/**
 * Judges a sample and learns from it: a new baseline and what is to be reported. `newId` is called when an episode
 * begins. Constant time and memory.
 */
export function judge(
  before: Baseline | null,
  { value: given, at: time }: Sample,
  borrowed: Borrowed | null,
  newId: () => string,
): Judged {
  const value = bounded(given)
  const known = before ?? newBaseline(time)
  // A clock that was set back must not count time twice.
  const at = Math.max(time, known.at)
  const verdict = weigh(known, value, at, borrowed)
  const baseline = { ...known, at }
  const severity = noteRun(baseline, verdict)
  const findings: Finding[] = []
  const grounds = () => groundsOf(known, verdict, value, at)
  // Learn it with a delay, otherwise the first sample of a runaway would make the second one look usual.
  if (known.run > 0 && !known.episode && !severity) learnPending(baseline)
  if (baseline.episode) {
    continueEpisode(baseline, known, verdict, value, severity, grounds, findings)
  } else if (severity) {
    const episode = beginEpisode(newId(), value, at, severity)
    if (known.run > 0) addPending(episode, known.pending, known.at)
    baseline.episode = episode
    findings.push({ kind: 'began', severity, episode, grounds: grounds() })
    if (verdict.basis === 'none') learnSample(baseline, known, verdict, value)
  } else if (verdict.exceeds) baseline.pending = value
  else learnSample(baseline, known, verdict, value)
  noteDrift(baseline, known, grounds, findings)
  return { baseline, findings }
}

function weigh(known: Baseline, value: number, at: number, borrowed: Borrowed | null): SampleVerdict {
  const mature = isMature(known, at)
  if (!mature && !borrowed) {
    const exceeds = isGross(known, value)
    return { basis: 'none', summary: known.main, tail: null, isQuiet: false, p: null, exceeds }
  }
  const isQuiet = mature && isQuietTime(known.times, known.main, known.quiet, at)
  const summary = mature ? (isQuiet ? known.quiet : known.main) : borrowed!.summary
  const tail = tailOf(summary)
  const p = exceedance(tail, value)
  return { basis: mature ? 'own' : borrowed!.basis, summary, tail, isQuiet, p, exceeds: p < exceedingP }
}

/** Whether the sample is far above all earlier ones, with a margin for their variation. */
function isGross({ samples, main, highest }: Baseline, value: number): boolean {
  if (samples < baselineLearning.grossSamples) return false
  const total = main.total
  let mean = 0
  let square = 0
  for (const [index, low] of main.values.entries()) {
    const log = Math.log1p(Math.max(0, low))
    mean += (log * main.weights[index]!) / total
    square += (log * log * main.weights[index]!) / total
  }
  const deviation = Math.sqrt(Math.max(0, square - mean * mean))
  const factor = Math.max(grossFactor, Math.exp(grossDeviations * deviation))
  return value + grossFloor >= factor * (Math.max(0, highest) + grossFloor)
}

/** Adds the sample to the run; returns the severity of the run, if any. */
function noteRun(baseline: Baseline, { tail, p, exceeds }: SampleVerdict): AnomalySeverity | null {
  const isBeyond = p !== null && p < 1
  const { beyond, together } = baseline
  const evidenceOfIt = p === null ? criticalSingle : -Math.log10(Math.max(p, 1e-99))
  if (!exceeds) {
    baseline.run = 0
    baseline.evidence = 0
  } else if (baseline.run === 0 || !tail) {
    baseline.run = 1
    baseline.evidence = evidenceOfIt
  } else {
    // Busy times last: after one sample beyond the threshold the next one is there more often than by chance.
    const share = (together + independentPrior * tail.share) / (beyond + independentPrior)
    baseline.run++
    const added = Math.max(0, evidenceOfIt - Math.log10(Math.max(1, share / tail.share)))
    // A constant level is one finding, which does not become critical by its duration.
    baseline.evidence = Math.min(baseline.evidence, warningEvidence) + added
  }
  if (!exceeds) {
    const keep = 1 - 1 / maxWeight
    baseline.beyond = beyond * keep + (isBeyond ? 1 : 0)
    baseline.together = together * keep + (isBeyond && baseline.wasBeyond ? 1 : 0)
  }
  baseline.wasBeyond = isBeyond
  if (!exceeds) return null
  const inRow = baseline.run > 1
  if (evidenceOfIt >= criticalSingle || (inRow && baseline.evidence >= criticalEvidence)) return 'critical'
  return inRow && baseline.evidence >= warningEvidence ? 'warning' : null
}

function groundsOf(known: Baseline, { basis, summary, isQuiet, p }: SampleVerdict, value: number, at: number): Grounds {
  const { samples, mean, highest } = known
  const deviation = deviationOf(known)
  return {
    basis,
    p,
    usual: { low: quantile(summary, 0.05), high: quantile(summary, 0.95) },
    highest: basis === 'own' ? highest : (summary.values.at(-1) ?? 0),
    samples,
    mean,
    deviation,
    z: (value - mean) / deviation,
    isQuietTime: isQuiet,
    sinceLast: samples > 0 ? at - known.at : null,
  }
}

/** Two samples in a row above this are reported. */
export const alarmLevel = (summary: Summary): number => levelAt(tailOf(summary), 10 ** (-warningEvidence / 2))

function noteDrift(baseline: Baseline, known: Baseline, grounds: () => Grounds, findings: Finding[]): void {
  const { at, main } = baseline
  // A rise during an episode was reported with it.
  if (!isMature(baseline, at) || main === known.main || known.episode || baseline.episode) return
  const level = levelAt(tailOf(main), exceedingP)
  const high = main.values.at(-1)!
  const standardError = deviationOf(baseline) / Math.sqrt(Math.min(baseline.samples, maxWeight))
  const { drift, risen } = noteLevel(baseline.drift, { at, level, high, mean: baseline.mean, standardError })
  baseline.drift = drift
  if (risen) findings.push({ kind: 'level', ...risen, grounds: grounds() })
}
