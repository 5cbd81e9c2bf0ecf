import { eventTypes } from '@wardline/contract'
import { minuteMs } from '../../clock.ts'
import { readCounter } from '../../db/counters.ts'
import type { Db } from '../../db/database.ts'
import { claimRun } from '../../db/runs.ts'
import type { Deps } from '../../deps.ts'
import { DatabaseError } from '../../errors.ts'
import type { Ingest } from './ingest.ts'
import type { LogFollower } from './log-follower.ts'
import { readEventIds } from './log-statements.ts'

/** All processes see the loss at about the same time, and one event reports it. */
const reportEveryMs = minuteMs
/** Ids read at once, well within the deadline of a statement. */
const idsAtOnce = 1_000

interface Parts {
  logFollower: Pick<LogFollower, 'head' | 'unchecked' | 'checked'>
  ingest: Pick<Ingest, 'own' | 'storeWithin'>
}

/** Finds the newest of these rows whose number another event has. One that is not stored may have been removed by its age. */
async function newestReplaced(db: Db, rows: LogFollower['unchecked']): Promise<number | undefined> {
  for (let end = rows.length; end > 0; end -= idsAtOnce) {
    const some = rows.slice(Math.max(0, end - idsAtOnce), end)
    const ids = await readEventIds(
      db,
      some.map(({ seq }) => seq),
    )
    const replaced = some.findLast(({ seq, id }) => (ids.get(seq) ?? id) !== id)
    if (replaced) return replaced.seq
  }
  return undefined
}

/**
 * Returns a job that looks whether the database still has the events that it confirmed. A standby that was promoted without
 * them, or a copy that was restored, lacks what came after some point, and this process remembers more: streams, rules, and
 * states of agents that no longer hold. So it reports the loss and ends (docs/adr/0007-exit-on-failed-sync.md).
 */
export function lossWatch({ database, clock, onFatal }: Deps, { logFollower, ingest }: Parts): () => Promise<void> {
  let timeline: number | undefined
  return async () => {
    if (!database.isShared) return
    const { head, unchecked } = logFollower
    const rows = [...unchecked]
    const now = await database.timeline()
    const stored = await readCounter(database.db, 'event_seq')
    // After a promotion new events may already follow the lost ones, so all are compared. Otherwise the last one shows it.
    const replaced = await newestReplaced(database.db, now === timeline ? rows.slice(-1) : rows)
    const lost = replaced ?? (stored < head ? head : undefined)
    if (lost !== undefined) {
      await report(lost, stored)
      return onFatal(
        new DatabaseError(
          `The database lost events that it had confirmed (event ${lost}). This process ends, because it remembers them; start it again.`,
        ),
      )
    }
    timeline = now
    const last = rows.at(-1)
    if (last) logFollower.checked(last)
  }

  async function report(lost: number, stored: number): Promise<void> {
    const now = clock.now()
    const event = ingest.own({
      severity: 'critical',
      event_type: eventTypes.eventsLost,
      description: `The database no longer has events that it had confirmed, up to the number ${lost}: it was replaced by a standby or a copy without them. Kills and resumes of that time may be lost as well: compare the agents that should be suspended.`,
      metadata: { confirmed_seq: lost, stored_seq: stored },
    })
    const publish = await database.db
      .transaction()
      .execute(async (trx) =>
        (await claimRun(trx, 'events_lost', now - reportEveryMs, now)) ? ingest.storeWithin(trx, [event]) : () => {},
      )
    publish()
  }
}
