import { alertTypes } from '@wardline/contract'
import { dayMs } from '../../clock.ts'
import type { Deps } from '../../deps.ts'
import type { Outbox } from '../alerts/outbox/outbox.ts'
import { markKillResult, readKillResults } from '../instances/control-statements.ts'

/** Two polls of an agent: one that listens has stopped long before. */
const confirmWithinMs = 60_000
/** The confirmation of an agent that returns after a week is shown in the fleet view only. */
const lookBackMs = 7 * dayMs
/** Kills reported in one run; the others follow a second later. */
const runRows = 200

const seconds = (ms: number) => `${Math.max(0, ms / 1_000).toFixed(1)} seconds`

/**
 * Reports the results of kills: confirmed by the agent, or not within a minute. A guarded update decides which process
 * reports.
 */
export async function reportKillResults({ database: { db }, clock, timekeeping }: Deps, outbox: Outbox): Promise<void> {
  const now = clock.now()
  // A clock that was set makes the youngest kill look old.
  const overdueBefore = timekeeping.mayJudge() ? now - confirmWithinMs : 0
  const bounds = { since: now - lookBackMs, overdueBefore, limit: runRows }
  for (const kill of await readKillResults(db, bounds)) {
    const { id, version, killedAt, confirmedAt } = kill
    const result = confirmedAt === null ? ('unconfirmed' as const) : ('confirmed' as const)
    const description =
      confirmedAt === null
        ? `Not confirmed ${seconds(now - killedAt)} after the kill: the agent is offline, or still working.`
        : `The agent confirmed ${seconds(confirmedAt - killedAt)} after the kill that it stopped.`
    await db.transaction().execute(async (trx) => {
      if (!(await markKillResult(trx, id, version, result))) return
      const type = confirmedAt === null ? alertTypes.killUnconfirmed : alertTypes.killConfirmed
      const severity = confirmedAt === null ? ('critical' as const) : ('info' as const)
      await outbox.write(trx, [{ severity, event_type: type, instance_id: id, description }], now)
    })
    outbox.notify()
  }
}
