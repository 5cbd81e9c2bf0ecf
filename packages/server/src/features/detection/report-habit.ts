import { dayMs, hourMs } from '../../clock.ts'
import type { ActiveBucket } from '../instances/history.ts'

/**
 * How long an instance usually reports nothing. All is counted in buckets of five minutes in which it sent heartbeats:
 * time in which it was off, or in which the service was, is no silence, and a clock that is set makes none.
 */
export interface Habit {
  /** Buckets since its first report. */
  alive: number
  /** Buckets without a report since the last one. */
  quiet: number
  /** The longest silence that ended with a report; it fades by an eighth a week. */
  longest: number
  /** Dates of UTC on which it was alive, and on which it reported. */
  days: number
  reportDays: number
  /** The last of each, in days since the epoch. */
  lastDay: number
  lastReportDay: number
}

export const newHabit: Habit = {
  alive: 0,
  quiet: 0,
  longest: 0,
  days: 0,
  reportDays: 0,
  lastDay: -1,
  lastReportDay: -1,
}

const bucketsOf = (ms: number) => ms / (hourMs / 12)
/** Decay per day, which is an eighth per week. */
const fading = 1 / 52
/** Silence is judged when a weekend was seen to its end, and reports on so many days: once a week, after a month. */
const neededDays = 10
const neededReportDays = 5
/** Who reported around the clock for three days has no working hours. */
const steadyBuckets = bucketsOf(3 * dayMs)
const steadySilence = bucketsOf(hourMs)
/** No silence below an hour is reported, and none below two and a half times the longest that was usual. */
const minSilence = bucketsOf(hourMs)
const silenceFactor = 2.5

/** Returns the habit after one more bucket. */
export function learnBucket(habit: Habit, { start, heartbeats, reports }: ActiveBucket): Habit {
  const isReport = reports > 0
  if (!isReport && (heartbeats === 0 || habit.alive === 0)) return habit
  const day = Math.floor(start / dayMs)
  const next = { ...habit, alive: habit.alive + 1 }
  if (day > habit.lastDay) {
    next.days += 1
    next.lastDay = day
    next.longest -= next.longest * fading
  }
  if (!isReport) {
    next.quiet += 1
    return next
  }
  if (day > habit.lastReportDay) {
    next.reportDays += 1
    next.lastReportDay = day
  }
  next.longest = Math.max(next.longest, habit.quiet)
  next.quiet = 0
  return next
}

/** Returns the number of silent buckets above which silence is unusual; undefined while the habit is unknown. */
export function silenceLimit({ alive, quiet, longest, days, reportDays }: Habit): number | undefined {
  const isSteady = alive - quiet >= steadyBuckets && longest <= steadySilence
  const isKnown = days >= neededDays && reportDays >= neededReportDays
  return isSteady || isKnown ? Math.max(minSilence, Math.ceil(longest * silenceFactor)) : undefined
}

/** Whether it reported regularly, and now sends heartbeats without a report for longer than it ever does. */
export const isBlind = (habit: Habit): boolean => habit.quiet > (silenceLimit(habit) ?? Infinity)

/** Stored form: seven numbers. */
export const habitText = (habit: Habit): string =>
  JSON.stringify([
    habit.alive,
    habit.quiet,
    Math.round(habit.longest * 100) / 100,
    habit.days,
    habit.reportDays,
    habit.lastDay,
    habit.lastReportDay,
  ])

export function habitOf(text: string): Habit {
  const [alive, quiet, longest, days, reportDays, lastDay, lastReportDay] = JSON.parse(text) as number[]
  return {
    alive: alive!,
    quiet: quiet!,
    longest: longest!,
    days: days!,
    reportDays: reportDays!,
    lastDay: lastDay!,
    lastReportDay: lastReportDay!,
  }
}
