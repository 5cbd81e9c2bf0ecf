import { dayMs } from '../../clock.ts'
import type { Deps } from '../../deps.ts'
import { DatabaseError } from '../../errors.ts'
import { randomSecret } from '../../ids.ts'
import { settingsOf } from '../suspensions/states.ts'
import { readProgress } from './containments.ts'
import { changePart, type FleetParts, publishAll } from './fleet-change.ts'
import { alertOf, lookAt } from './progress.ts'
import {
  type ContainmentRow,
  claimWork,
  deleteOld,
  findAbandoned,
  findToReport,
  finish,
  lookedStatements,
  nextPart,
} from './queries.ts'
import { deleteExpired } from './resume-request-queries.ts'

/** Attempts per part. Each skips members that others changed at the same time, in the worst case one by one. */
const maxAttempts = 300
/** Containments per run of the job. */
const runRows = 20
/** Retention of containments; the audit log keeps the record. */
const keptMs = 400 * dayMs

/** Executes containments: those requested from this process, and those whose worker is gone. */
export class ContainmentWork {
  /** Id of this process in leases. */
  readonly worker = randomSecret(12)
  readonly #deps: Deps
  readonly #parts: FleetParts
  readonly #running = new Map<string, Promise<void>>()

  constructor(deps: Deps, parts: FleetParts) {
    this.#deps = deps
    this.#parts = parts
  }

  /** Executes a containment until it is done; after a fault the job continues it. */
  start(id: string): void {
    if (this.#running.has(id)) return
    const work = this.#work(id)
      .catch((fault) =>
        this.#deps.log.error({ err: fault, containment: id }, 'a containment waits for its next attempt'),
      )
      .finally(() => this.#running.delete(id))
    this.#running.set(id, work)
  }

  /** Periodic job: continues containments that no process works on, and reports results. */
  async run(): Promise<void> {
    const { database, clock } = this.#deps
    const now = clock.now()
    for (const id of await findAbandoned(database, this.worker, now, runRows)) this.start(id)
    for (const row of await findToReport(database.db, now, runRows)) await this.#look(row)
  }

  /** Periodic job: deletes old containments. */
  async forget(stopping?: AbortSignal): Promise<void> {
    const { database, clock } = this.#deps
    await deleteExpired(database.db, clock.now())
    // Not in the usual portions: each containment is deleted with its parts, which may be a thousand.
    while (!stopping?.aborted && (await deleteOld(database.db, clock.now() - keptMs, runRows)) === runRows);
  }

  async whenIdle(): Promise<void> {
    await Promise.all(this.#running.values())
  }

  async #work(id: string): Promise<void> {
    const { database, clock, log } = this.#deps
    const row = await claimWork(database, id, this.worker, clock.now())
    if (!row) return
    let publishing = Promise.resolve()
    for (let failed = 0; ; ) {
      const part = await nextPart(database.db, id)
      if (!part) break
      try {
        const { position, members } = part
        const messages = await changePart(this.#deps, this.#parts, { row, position, members: JSON.parse(members) })
        failed = 0
        // The database processes the next part at the same time.
        publishing = publishing.then(() => publishAll(this.#deps, this.#parts.suspensionFacts, messages))
      } catch (fault) {
        failed += 1
        const isRace = fault instanceof DatabaseError && (fault.stale || fault.busy)
        if (!isRace || failed === maxAttempts) throw fault
      }
    }
    await publishing
    await finish(database.db, id, clock.now())
    log.info({ containment: id, action: row.action, agents: row.requested }, 'containment worked off')
  }

  /** Reports the result once it is known, and stores the counts once they are final. */
  async #look(row: ContainmentRow): Promise<void> {
    const { database, clock, config, timekeeping } = this.#deps
    const { enforcement, outbox } = this.#parts
    const { acknowledgeMs } = settingsOf(config)
    const now = clock.now()
    const progress = await readProgress(database, row, enforcement.points, now - acknowledgeMs)
    const { news, ...changes } = lookAt(row, progress, { now, acknowledgeMs, mayJudge: timekeeping.mayJudge() })
    const alerts = news ? outbox.ownStatements([alertOf(row, progress, news, acknowledgeMs)], now) : []
    try {
      await database.batch([...lookedStatements(database, row, changes), ...alerts])
    } catch (fault) {
      // Another process was faster.
      if (!(fault instanceof DatabaseError && fault.stale)) throw fault
      return
    }
    if (news) outbox.notify()
  }
}
