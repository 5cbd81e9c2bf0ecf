import { dayMs } from '../../clock.ts'

/** Limits how fast a baseline adapts to samples that do not exceed, so that a slow increase by an intruder is reported. */
export interface Drift {
  /** The day of the levels below, counted from the epoch; -1 before there are any. */
  day: number
  /** The alarm level and the highest learnt value when this day and the one before began. */
  level: number
  levelBefore: number
  high: number
  highBefore: number
  /** Time until which the levels are still being established. */
  settlesAt: number
  /** The mean that slow rises are measured against, and until when it is still being found. */
  reference: number
  referenceUntil: number
}

/** Maximum rise within a day without a warning. */
const maxDaily = 2
/** A rise of the mean over any time that is reported once: a week's memory lags behind, and 5 % a day is reported in time. */
const slowRise = 1.7
/** Within these standard errors a mean is where it was. */
const standardErrors = 3
/** So that an event a day, where there was none, is no rise. */
const meanFloor = 0.01
const levelFloor = 2
/** The reference is the highest mean of the first week: a baseline that begins on a Saturday is no quiet one. */
const referenceMs = 7 * dayMs
/** What a baseline shows in its second and third day may still double by chance. */
const settlingMs = 2 * dayMs
const referenceFall = 0.98

export const newDrift = (): Drift => ({
  day: -1,
  level: 0,
  levelBefore: 0,
  high: 0,
  highBefore: 0,
  settlesAt: 0,
  reference: 0,
  referenceUntil: 0,
})

/** Values beyond teach as this one. */
export function learningCap({ day, high, highBefore }: Drift): number {
  return day === -1 ? Number.POSITIVE_INFINITY : maxDaily * Math.max(0, Math.min(high, highBefore)) + levelFloor
}

/** Resets the levels after an episode, whose rise was reported. */
export const settleLevel = (drift: Drift, level: number): Drift => ({ ...drift, level, levelBefore: level })

interface Levels {
  at: number
  level: number
  high: number
  mean: number
  standardError: number
}

interface Risen {
  pace: 'day' | 'slow'
  from: number
  to: number
}

/** Updates the levels; returns whether the baseline rose too fast or too far. */
export function noteLevel(drift: Drift, now: Levels): { drift: Drift; risen: Risen | null } {
  const { at, level, high, mean, standardError } = now
  const day = Math.floor(at / dayMs)
  if (drift.day === -1) {
    const levels = { level, levelBefore: level, high, highBefore: high, settlesAt: at + settlingMs }
    return { drift: { day, ...levels, reference: mean, referenceUntil: at + referenceMs }, risen: null }
  }
  const from = Math.min(drift.level, drift.levelBefore)
  if (at >= drift.settlesAt && level > maxDaily * (Math.max(0, from) + levelFloor)) {
    return { drift: { ...drift, level, levelBefore: level }, risen: { pace: 'day', from, to: level } }
  }
  if (day === drift.day) return { drift, risen: null }
  const next = { ...drift, day, level, levelBefore: drift.level, high, highBefore: drift.high }
  if (at < drift.referenceUntil) {
    return { drift: { ...next, reference: Math.max(drift.reference, mean) }, risen: null }
  }
  const { reference } = drift
  if (mean > slowRise * (Math.max(0, reference) + meanFloor) + standardErrors * standardError) {
    return { drift: { ...next, reference: mean }, risen: { pace: 'slow', from: reference, to: mean } }
  }
  // Follows a fall slowly, so that a later rise from the lower level is detected.
  if (mean < reference / 2) next.reference = Math.max(mean, reference * referenceFall)
  return { drift: next, risen: null }
}
