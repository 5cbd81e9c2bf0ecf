import { eventTypes } from '@wardline/contract'
import { dayMs, hourMs, isoTime, minuteMs } from '../../clock.ts'
import { claimRun } from '../../db/runs.ts'
import type { Deps } from '../../deps.ts'
import type { Ingest } from '../events/ingest.ts'
import {
  beginOverdue,
  endOverdue,
  hasUnnamed,
  markNamed,
  markWarned,
  type OverdueRow,
  takeAnswered,
} from '../instances/drill-statements.ts'

const overdueMs = 3 * dayMs
/** Unanswered drills before a warning, if they are sent less often than daily. */
const overduePeriods = 3
/** A returning agent gets a drill within ten minutes, and another one an hour later. */
const waitMs = hourMs + 15 * minuteMs
const warnEveryMs = dayMs
const runName = 'drills_overdue'
const runEveryMs = minuteMs
/** Rows of one transaction. */
const batchRows = 200
/** Instances listed per run; a fleet that does not answer has one cause. */
const maxNamed = 20

/**
 * Warns about online agents that have not passed a drill for days, and ends the warning once they do. One process runs it,
 * once a minute.
 */
export async function warnOfOverdue(deps: Deps, { ingest }: { ingest: Ingest }): Promise<void> {
  const { config, clock, timekeeping } = deps
  const { db } = deps.database
  const now = clock.now()
  if (!(await claimRun(db, runName, now - runEveryMs + 1_000, now))) return
  await endWarnings(deps, ingest)
  if (config.drillHours === null || !timekeeping.mayJudge()) return
  const allowedMs = Math.max(overdueMs, overduePeriods * config.drillHours * hourMs)
  const bounds = { now, provenBefore: now - allowedMs }
  await endOverdue(db, bounds)
  for (let count = batchRows; count === batchRows; ) count = await beginOverdue(db, bounds, batchRows)
  const due = { ...bounds, waitingBefore: now - waitMs, warnedBefore: now - warnEveryMs }
  let named = 0
  let others = 0
  for (let count = batchRows; count === batchRows; ) {
    const publish = await db.transaction().execute(async (trx) => {
      const rows = await markWarned(trx, due, batchRows)
      count = rows.length
      const chosen = rows.slice(0, maxNamed - named)
      const ids = chosen.map(({ id }) => id)
      if (ids.length > 0) await markNamed(deps.database, trx, ids, now)
      const events = chosen.map((row) => ingest.own(overdueEvent(row, now)))
      named += events.length
      others += rows.length - events.length
      return events.length > 0 ? await ingest.storeWithin(trx, events) : () => {}
    })
    publish()
  }
  if (others === 0) return
  const event = ingest.own({
    severity: 'warning',
    event_type: eventTypes.drillsOverdue,
    description: `${others} more instances did not answer a drill for days`,
    metadata: { instances: others },
  })
  await ingest.store([event])
}

/** Ends the warnings of agents that answered. The warning about unlisted agents ends with the last of them. */
async function endWarnings({ database }: Deps, ingest: Ingest): Promise<void> {
  for (const named of [true, false]) {
    for (let count = batchRows; count === batchRows; ) {
      const publish = await database.db.transaction().execute(async (trx) => {
        const rows = await takeAnswered(trx, named, batchRows)
        count = rows.length
        const isOver = !named && count > 0 && !(await hasUnnamed(trx))
        const events = named ? rows.map(answeredEvent) : isOver ? [allAnswered] : []
        return events.length > 0 ? await ingest.storeWithin(trx, events.map(ingest.own)) : () => {}
      })
      publish()
    }
  }
}

const answeredEvent = ({ id, at }: { id: string; at: number }) =>
  ({
    severity: 'info',
    event_type: eventTypes.drillAnswered,
    description: 'Showed that a suspension would reach it',
    instance_id: id,
    metadata: { last_proven_stoppable_at: isoTime(at) },
  }) as const

const allAnswered = {
  severity: 'info',
  event_type: eventTypes.drillsAnswered,
  description: 'All instances that did not answer drills for days have shown that a suspension would reach them',
} as const

function overdueEvent({ id, last_proven_at, drills_since }: OverdueRow, now: number) {
  const days = Math.floor((now - Math.max(last_proven_at ?? 0, drills_since)) / dayMs)
  return {
    severity: 'warning',
    event_type: eventTypes.drillOverdue,
    description: `Did not answer a drill for ${days} days although it is online: nothing shows that a suspension would reach it`,
    instance_id: id,
    metadata: { days, last_proven_stoppable_at: last_proven_at === null ? null : isoTime(last_proven_at) },
  } as const
}
