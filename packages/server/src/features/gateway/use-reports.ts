import { startOf } from '../../clock.ts'
import type { Deps } from '../../deps.ts'
import type { Events } from '../events/events.ts'
import { readModelUse } from '../events/log-statements.ts'
import { measuredMetrics } from '../events/session-metrics.ts'

const windowMs = 300_000
/** Until then a commit that began in the window is over, on a slow disk too. */
const settleMs = 30_000
/** Windows that a process looks back to when it takes over: a restart takes less. */
const lookBack = 3
/** Reports in one commit. */
const together = 100

/**
 * Reports what each agent's calls of models used in five minutes, as `session_metrics` of the service. Read from the events
 * of the calls, because the calls of one agent can go through several processes. An agent without calls has no report.
 */
export class UseReports {
  readonly #deps: Pick<Deps, 'database' | 'clock'>
  readonly #events: Pick<Events, 'storeMeasured'>
  #reportedTo = -Infinity

  constructor(deps: Pick<Deps, 'database' | 'clock'>, { events }: { events: Pick<Events, 'storeMeasured'> }) {
    this.#deps = deps
    this.#events = events
  }

  /** Periodic job. `isLeader`: of several processes, one reports; what another has reported is not stored again. */
  async run(isLeader: boolean, stopping?: AbortSignal): Promise<void> {
    if (!isLeader) return
    const end = startOf(this.#deps.clock.now() - settleMs, windowMs)
    for (let from = Math.max(this.#reportedTo, end - lookBack * windowMs); from < end; from += windowMs) {
      if (stopping?.aborted) return
      await this.#report(from)
      this.#reportedTo = from + windowMs
    }
  }

  async #report(from: number): Promise<void> {
    const { database } = this.#deps
    const used = await database.scan('use of models', (db) => readModelUse(database, db, { from, to: from + windowMs }))
    for (let start = 0; start < used.length; start += together) {
      const reports = used.slice(start, start + together).map(({ instance_id, tokens, usd }) => {
        const metrics: Record<string, number> = { [measuredMetrics.tokens]: tokens }
        // The detector takes differences below 1 for nothing.
        if (usd !== null) metrics[measuredMetrics.cost] = Math.round(usd * 1e6)
        return this.#events.storeMeasured(instance_id, metrics, `model use ${instance_id} ${from}`)
      })
      await Promise.all(reports)
    }
  }
}
