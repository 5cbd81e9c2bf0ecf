import { dayMs, hourMs } from '../../clock.ts'
import {
  type AnomalySeverity,
  type Baseline,
  type Episode,
  exceedingP,
  type Finding,
  type Grounds,
  learnSample,
  maxBuckets,
  maxWeight,
  type SampleVerdict,
} from './baseline.ts'
import { newDrift, settleLevel } from './drift.ts'
import { newTimes } from './quiet-times.ts'
import { emptySummary, learn, levelAt, merge, quantile, tailOf } from './summary.ts'

/** An episode ends after this time without a sample that exceeds, and this many samples that do not. */
const calmMs = hourMs
const calmSamples = 3
/** An episode of an agent that stopped reporting ends after this time. */
export const silentMs = 2 * hourMs
/** A level that holds for so long is learnt; one that comes back every working day, when it ends for the first time. */
const holdMs = 12 * hourMs
const holdToEndMs = 4 * hourMs
/** Levels beyond so many times the alarm level of a month ago are never learnt without an operator. */
const maxAccepted = 5
const acceptedMs = 30 * dayMs
/** Maximum level learnt from an ended episode, as a multiple of the alarm level. */
const taughtFactor = 2
/** The old level keeps at least this share of an accepted one. */
const keptShare = 0.25

const severityRank = { warning: 1, critical: 2 } as const

export function beginEpisode(id: string, value: number, at: number, severity: AnomalySeverity): Episode {
  return {
    id,
    begunAt: at,
    lastAt: at,
    severity,
    peak: value,
    exceeding: 1,
    calm: 0,
    calmInRow: 0,
    candidate: { values: [value], weights: [1], total: 1 },
  }
}

/** Adds the previous sample, with which the run began. */
export function addPending(episode: Episode, value: number, at: number): void {
  episode.begunAt = at
  episode.exceeding++
  episode.peak = Math.max(episode.peak, value)
  episode.candidate = learn(episode.candidate, value, 1, 1, maxBuckets.candidate)
}

export function continueEpisode(
  baseline: Baseline,
  known: Baseline,
  verdict: SampleVerdict,
  value: number,
  severity: AnomalySeverity | null,
  grounds: () => Grounds,
  findings: Finding[],
): void {
  const { at } = baseline
  const episode = { ...baseline.episode! }
  baseline.episode = episode
  if (!verdict.exceeds) {
    episode.calm++
    episode.calmInRow++
    learnSample(baseline, known, verdict, value)
    if (at - episode.lastAt < calmMs || episode.calmInRow < calmSamples) return
    endEpisode(baseline, verdict, episode.lastAt, holdToEndMs, findings)
    return
  }
  // What a baseline sees in its first day is all that it knows.
  if (verdict.basis === 'none') learnSample(baseline, known, verdict, value)
  episode.exceeding++
  episode.calmInRow = 0
  episode.lastAt = at
  episode.peak = Math.max(episode.peak, value)
  episode.candidate = learn(episode.candidate, value, 1, 1, maxBuckets.candidate)
  if (severity && severityRank[severity] > severityRank[episode.severity]) {
    episode.severity = severity
    findings.push({ kind: 'rose', severity, episode, grounds: grounds() })
  }
  if (at - episode.begunAt >= holdMs) endEpisode(baseline, verdict, at, holdMs, findings)
}

/** Ends the open episode: its level is learnt when it held for so long and is not too far beyond the alarm. */
function endEpisode(
  baseline: Baseline,
  { tail }: SampleVerdict,
  endedAt: number,
  neededMs: number,
  findings: Finding[],
): void {
  const episode = baseline.episode!
  const { at, accepted } = baseline
  const alarm = tail ? Math.max(1, levelAt(tail, exceedingP)) : Number.POSITIVE_INFINITY
  const isRecent = accepted.at > 0 && at - accepted.at < acceptedMs
  const limit = maxAccepted * (isRecent ? Math.min(alarm, accepted.level) : alarm)
  const held = endedAt - episode.begunAt >= neededMs
  if (held && quantile(episode.candidate, 0.5) <= limit) {
    findings.push({ kind: 'ended', outcome: 'accepted', episode, endedAt })
    Object.assign(baseline, acceptLevel(baseline))
    if (!isRecent) baseline.accepted = { at, level: alarm }
  } else if (!held || endedAt < at) {
    findings.push({ kind: 'ended', outcome: 'over', episode, endedAt })
    baseline.episode = null
    // Learn one sample per episode, so that repeated episodes become usual after a while.
    const taught = Math.min(quantile(episode.candidate, 0.5), taughtFactor * alarm)
    baseline.main = learn(baseline.main, taught, 1, 1, maxBuckets.main)
    baseline.drift = settleLevel(baseline.drift, levelAt(tailOf(baseline.main), exceedingP))
  }
}

/** Returns the baseline with the level of its open episode learnt as usual. */
export function acceptLevel(baseline: Baseline): Baseline {
  const { episode, main, at } = baseline
  if (!episode) return baseline
  const total = Math.max(1, main.total)
  const { exceeding, calm, candidate } = episode
  const kept = Math.max(keptShare, calm / (calm + exceeding))
  const size = Math.min(maxWeight, Math.max(total, exceeding))
  const accepted = merge(main, (size * kept) / total, candidate, (size * (1 - kept)) / exceeding, maxBuckets.main)
  const samples = baseline.samples + exceeding
  const weight = accepted.total
  const mean = accepted.values.reduce((sum, value, index) => sum + value * accepted.weights[index]!, 0) / weight
  const variance =
    accepted.values.reduce((sum, value, index) => sum + (value - mean) ** 2 * accepted.weights[index]!, 0) / weight
  return {
    ...baseline,
    samples,
    mean,
    m2: variance * Math.max(1, Math.min(samples, maxWeight) - 1),
    main: accepted,
    quiet: emptySummary,
    times: newTimes(at),
    highest: Math.max(baseline.highest, episode.peak),
    highestAt: at,
    run: 0,
    evidence: 0,
    drift: newDrift(),
    episode: null,
  }
}

/** Returns the baseline after an episode that ended because the agent fell silent. */
export const endSilently = (baseline: Baseline): Baseline => ({ ...baseline, run: 0, evidence: 0, episode: null })
