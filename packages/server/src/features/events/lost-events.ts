import { eventTypes } from '@wardline/contract'
import { minuteMs } from '../../clock.ts'
import { readCounter } from '../../db/counters.ts'
import { claimRun } from '../../db/runs.ts'
import type { Deps } from '../../deps.ts'
import { DatabaseError } from '../../errors.ts'
import type { Ingest } from './ingest.ts'
import type { LogFollower } from './log-follower.ts'
import { readEventId } from './log-statements.ts'

/** Another event with the same number is newer, but for a small change of the clock. */
const clockChangeMs = minuteMs
/** All processes see the loss at about the same time, and one event reports it. */
const reportEveryMs = minuteMs

interface Parts {
  logFollower: Pick<LogFollower, 'last'>
  ingest: Pick<Ingest, 'own' | 'store'>
}

/**
 * Looks whether the database still has the last event that it confirmed. A standby that was promoted without it, or a copy
 * that was restored, lacks what came after some point, and this process remembers more: streams, rules, and states of agents
 * that no longer hold. So it reports the loss and ends (docs/adr/0007-exit-on-failed-sync.md).
 */
export async function watchForLoss({ database, clock, onFatal }: Deps, { logFollower, ingest }: Parts): Promise<void> {
  const { last } = logFollower
  if (!database.isShared || last === undefined) return
  const { seq, id, created_at } = last
  const stored = await readCounter(database.db, 'event_seq')
  const found = stored < seq ? undefined : await readEventId(database.db, seq, created_at - clockChangeMs)
  // An event that is not stored although later ones are may have been removed by its age.
  const isLost = stored < seq || (found !== undefined && found !== id)
  if (!isLost) return
  const now = clock.now()
  if (await claimRun(database.db, 'events_lost', now - reportEveryMs, now)) {
    const event = ingest.own({
      severity: 'critical',
      event_type: eventTypes.eventsLost,
      description: `The database no longer has events that it had confirmed, up to the number ${seq}: it was replaced by a standby or a copy without them. Kills and resumes of that time may be lost as well: compare the agents that should be suspended.`,
      metadata: { confirmed_seq: seq, stored_seq: stored },
    })
    await ingest.store([event])
  }
  onFatal(
    new DatabaseError(
      `The database lost events that it had confirmed (event ${seq}). This process ends, because it remembers them; start it again.`,
    ),
  )
}
