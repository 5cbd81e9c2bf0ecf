import { dayMs, hourMs } from '../../clock.ts'
import { bucketOf, quantile, type Summary } from './summary.ts'

/** Daily and weekly pattern of a metric: the highest value per two-hour slot of the week, in UTC. */
export interface Times {
  since: number
  week: number
  /** A bucket of values for each slot, 0 to 255. */
  maxima: Uint8Array
}

export const weekSlots = 84
const slotMs = 2 * hourMs
const weekMs = 7 * dayMs
/** The epoch was a Thursday; weeks begin on Monday only so that they are easy to read. */
const mondayMs = 4 * dayMs
/** Minimum weeks to recognize a pattern of weekdays. */
const neededMs = 3 * weekMs
/** Samples, as many as 16 minutes apart give: a slot with a few would be quiet by chance. */
const neededWeight = 600
/** Quiet is at most a third of what is usual at busy times, which must be worth dividing. */
const quietShare = 3
const minBusy = 6
/** Minimum quiet slots; fewer are chance. */
const minQuietSlots = 8
/** Samples of quiet times before these are judged by them alone. */
const minQuietWeight = 150

export const newTimes = (at: number): Times => ({ since: at, week: weekOf(at), maxima: new Uint8Array(weekSlots) })

const weekOf = (at: number) => Math.floor((at - mondayMs) / weekMs)
const slotOf = (at: number) => Math.floor((((at - mondayMs) % weekMs) + weekMs) / slotMs) % weekSlots

/** Adds a sample. Each week the maxima fall by one bucket, 15 %, so that a single busy night is forgotten. */
export function learnTime(times: Times, value: number, at: number): Times {
  const week = weekOf(at)
  const slot = slotOf(at)
  const bucket = Math.min(255, Math.max(0, bucketOf(value)))
  if (week === times.week && times.maxima[slot]! >= bucket) return times
  const maxima = week === times.week ? times.maxima.slice() : times.maxima.map((maximum) => Math.max(0, maximum - 1))
  maxima[slot] = Math.max(maxima[slot]!, bucket)
  return { since: times.since, week, maxima }
}

/**
 * Whether this metric is always low at this time of the week, while it is high at others. The slots before and after
 * must be quiet too: working days begin earlier at times, and by an hour twice a year. Without `quiet`, only whether
 * samples of this time are to be learnt as such.
 */
export function isQuietTime(times: Times, main: Summary, quiet: Summary | undefined, at: number): boolean {
  if (at - times.since < neededMs) return false
  const { maxima } = times
  const slot = slotOf(at)
  const total = main.total
  const busy = quantile(main, 0.95)
  if (busy < minBusy || total < neededWeight) return false
  const limit = bucketOf(busy / quietShare)
  for (const beside of [-1, 0, 1]) if (maxima[(slot + beside + weekSlots) % weekSlots]! > limit) return false
  if (quiet && quiet.total < minQuietWeight) return false
  let slots = 0
  for (const maximum of maxima) if (maximum <= limit) slots++
  return slots >= minQuietSlots
}
