import { eventTypes } from '@wardline/contract'
import { dayMs, hourMs, isoTime, minuteMs } from '../../clock.ts'
import { readRun, recordRun } from '../../db/runs.ts'
import type { Deps } from '../../deps.ts'
import type { Ingest } from '../events/ingest.ts'
import { bucketMs, readHourlyActivity } from '../instances/history.ts'
import {
  deleteHabitsBefore,
  type HabitRow,
  type HabitWrite,
  hasUnnamedBlind,
  readHabits,
  writeHabits,
} from './habit-queries.ts'
import { type Habit, habitOf, habitText, isBlind, learnBucket, newHabit, silenceLimit } from './report-habit.ts'

type Activity = Awaited<ReturnType<typeof readHourlyActivity>>[number]

/** Instances per page: some ten milliseconds. */
const pageRows = 250
/** Delay after which the counts of a bucket are complete, because each process writes them once a minute. */
const settledAfterMs = 5 * minuteMs
/** Counts are kept for a day; they are read since shortly before the last sweep, since an instance may have been late. */
const maxBackMs = dayMs
const minBackMs = 2 * hourMs
const habitsName = 'report_habits'
/** Instances listed per sweep, so that a holiday of a fleet does not bury everything else. */
const maxNamed = 20
/** After this absence an agent's habit is deleted. */
const forgottenAfterMs = 60 * dayMs

interface Judged {
  write: HabitWrite
  habit: Habit
  change: 'blind' | 'reporting' | undefined
}

/** One instance, up to an instant whose counts are complete. */
function judge(
  { id, isSuspended, controlChangedAt, buckets }: Activity,
  row: HabitRow | undefined,
  until: number,
  now: number,
): Judged {
  let habit = row ? habitOf(row.state) : newHabit
  // After the clock was set back, do not judge the same buckets again.
  const from = Math.max(row?.judged_until ?? until - minBackMs, controlChangedAt)
  let hasReported = false
  for (const bucket of buckets) {
    if (bucket.start < from || bucket.start >= until) continue
    habit = learnBucket(habit, bucket)
    hasReported ||= bucket.reports > 0
  }
  // Ignore the silence of suspended agents, and learn nothing from it.
  if (isSuspended) habit = { ...habit, quiet: 0 }
  const wasBlind = row !== undefined && row.blind_at !== null
  const change =
    wasBlind && hasReported ? 'reporting' : !wasBlind && !isSuspended && isBlind(habit) ? 'blind' : undefined
  const blindAt = change === 'blind' ? now : change === 'reporting' ? null : (row?.blind_at ?? null)
  const write = {
    instance_id: id,
    before: row?.judged_until ?? null,
    judged_until: until,
    state: habitText(habit),
    blind_at: blindAt,
    blind_named_at: change === 'reporting' ? null : (row?.blind_named_at ?? null),
  }
  return { write, habit, change }
}

const lengthText = (buckets: number): string => {
  const minutes = (buckets * bucketMs) / minuteMs
  return minutes < 180 ? `${minutes} minutes` : `${Math.round(minutes / 60)} hours`
}

const allReporting = {
  severity: 'info',
  event_type: eventTypes.instanceReporting,
  description: 'All instances that sent heartbeats without any event, and were only counted, report events again',
} as const

function describe({ write, habit, change }: Judged, blindSince: number | null) {
  if (change === 'reporting') {
    return {
      severity: 'info' as const,
      event_type: eventTypes.instanceReporting,
      description: 'Reports events again',
      instance_id: write.instance_id,
      ...(blindSince === null ? {} : { metadata: { blind_since: isoTime(blindSince) } }),
    }
  }
  const usual = Math.round(habit.longest)
  return {
    severity: 'warning' as const,
    event_type: eventTypes.instanceBlind,
    description: `Heartbeats without any event for ${lengthText(habit.quiet)}; usually at most ${lengthText(Math.max(1, usual))}`,
    instance_id: write.instance_id,
    metadata: {
      silent_seconds: (habit.quiet * bucketMs) / 1_000,
      usual_seconds: (usual * bucketMs) / 1_000,
      limit_seconds: ((silenceLimit(habit) ?? 0) * bucketMs) / 1_000,
    },
  }
}

/** Finds agents that are connected but stopped reporting. */
export function createBlindness(
  { database, clock, timekeeping }: Pick<Deps, 'database' | 'clock' | 'timekeeping'>,
  { ingest }: { ingest: Ingest },
) {
  const { db } = database

  async function judgePage(
    activities: readonly Activity[],
    until: number,
    now: number,
    room: number,
  ): Promise<{ named: number; others: number }> {
    const known = new Map(
      (
        await readHabits(
          db,
          activities.map(({ id }) => id),
        )
      ).map((row) => [row.instance_id, row]),
    )
    const judged = activities.flatMap((activity) => {
      const row = known.get(activity.id)
      if (row && row.judged_until >= until && row.judged_until <= now + dayMs) return []
      return [judge(activity, row, until, now)]
    })
    if (judged.length === 0) return { named: 0, others: 0 }
    for (const { write } of judged.filter(({ change }) => change === 'blind').slice(0, room)) write.blind_named_at = now
    let blind: Judged[] = []
    // The state and its event are one transaction, so that exactly one process reports it.
    const publish = await db.transaction().execute(async (trx) => {
      const written = await writeHabits(
        { db: trx, dialect: database.dialect },
        judged.map(({ write }) => write),
      )
      const changed = judged.filter(({ write, change }) => change !== undefined && written.has(write.instance_id))
      blind = changed.filter(({ change }) => change === 'blind')
      // Every warning that listed an instance gets an end, however many end at once.
      const wasNamed = ({ write }: Judged) => known.get(write.instance_id)?.blind_named_at != null
      const ended = changed.filter(({ change }) => change === 'reporting')
      const named = [...ended.filter(wasNamed), ...blind.filter(({ write }) => write.blind_named_at !== null)]
      const events = named.map((one) => ingest.own(describe(one, known.get(one.write.instance_id)?.blind_at ?? null)))
      const isOver = !ended.every(wasNamed) && !(await hasUnnamedBlind(trx))
      if (isOver) events.push(ingest.own(allReporting))
      return events.length > 0 ? ingest.storeWithin(trx, events) : () => {}
    })
    publish()
    const named = blind.filter(({ write }) => write.blind_named_at !== null).length
    return { named, others: blind.length - named }
  }

  async function reportOthers(count: number): Promise<void> {
    if (count === 0) return
    const event = ingest.own({
      severity: 'warning',
      event_type: eventTypes.instanceBlind,
      description: `${count} more instances send heartbeats without any event`,
      metadata: { instances: count },
    })
    await ingest.store([event])
  }

  return {
    /** Periodic job: learns how long instances are usually silent, and reports instances that became blind or recovered. */
    async sweep(stopping?: AbortSignal): Promise<void> {
      // Right after a clock change, the time of a bucket would be counted twice or not at all.
      if (!timekeeping.mayJudge()) return
      const now = clock.now()
      const settled = now - settledAfterMs
      const until = settled - (settled % bucketMs)
      const lastSweep = (await readRun(db, habitsName)) ?? now
      const backMs = Math.min(maxBackMs, Math.max(minBackMs, now - lastSweep + hourMs))
      let named = 0
      let others = 0
      for (let after = ''; !stopping?.aborted; ) {
        const activities = await database.scan('report habits', (scanned) =>
          readHourlyActivity(scanned, after, now - backMs, pageRows),
        )
        if (activities.length > 0) {
          const reported = await judgePage(activities, until, now, maxNamed - named)
          named += reported.named
          others += reported.others
        }
        after = activities.at(-1)?.id ?? after
        if (activities.length < pageRows) {
          await recordRun(db, habitsName, now)
          break
        }
      }
      await reportOthers(others)
      await deleteHabitsBefore(db, now - forgottenAfterMs, stopping)
    },
  }
}
