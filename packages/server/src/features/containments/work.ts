import { alertTypes } from '@wardline/contract'
import { dayMs } from '../../clock.ts'
import type { Deps } from '../../deps.ts'
import { DatabaseError } from '../../errors.ts'
import { randomSecret } from '../../ids.ts'
import type { Outbox } from '../alerts/outbox/outbox.ts'
import type { Actor } from '../audit/audit.ts'
import type { Enforcement } from '../enforcement/enforcement.ts'
import { unchangedCount } from '../instances/fleet-statements.ts'
import { settingsOf } from '../suspensions/states.ts'
import type { SuspensionFacts } from '../suspensions/suspension-facts.ts'
import { leaseMs, readProgress } from './containments.ts'
import { changeFleet, type FleetMember, publishAll } from './fleet-change.ts'
import { type Progress, stateOf, unenforced } from './progress.ts'
import {
  type ContainmentRow,
  checkUnchanged,
  claim,
  deleteOld,
  donePartStatements,
  findAbandoned,
  findToReport,
  finish,
  holdPart,
  lookedStatements,
  nextPart,
} from './queries.ts'
import { deleteExpired } from './resume-request-queries.ts'
import { readStopVerdicts } from './stop-verdicts.ts'

/** Attempts per part. Each skips members that others changed at the same time, in the worst case one by one. */
const maxAttempts = 300
/** Containments per run of the job. */
const runRows = 20
/** Intervals of checking the result: while it may change soon, later, and for how long. */
const looks = { soonMs: 1_000, soonForMs: 120_000, laterMs: 60_000, untilMs: 7 * dayMs }
/** Retention of containments; the audit log keeps the record. */
const keptMs = 400 * dayMs

/** Formats the agents that did not confirm. */
function missingText(progress: Progress, agents: string): string {
  const open = unenforced(progress)
  const calls = open > 0 ? [`${open} ${open === 1 ? 'call' : 'calls'} to enforcement points`] : []
  return [...(progress.missing > 0 ? [`${progress.missing} of ${agents}`] : []), ...calls].join(' and ')
}

/** Executes containments: those requested from this process, and those whose worker is gone. */
export class ContainmentWork {
  /** Id of this process in leases. */
  readonly worker = randomSecret(12)
  readonly #deps: Deps
  readonly #outbox: Outbox
  readonly #facts: SuspensionFacts
  readonly #enforcement: Enforcement
  readonly #running = new Map<string, Promise<void>>()

  constructor(deps: Deps, parts: { outbox: Outbox; suspensionFacts: SuspensionFacts; enforcement: Enforcement }) {
    const { outbox, suspensionFacts, enforcement } = parts
    this.#enforcement = enforcement
    this.#deps = deps
    this.#outbox = outbox
    this.#facts = suspensionFacts
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
    for (const id of await findAbandoned(database.db, this.worker, now, runRows)) this.start(id)
    for (const row of await findToReport(database.db, now, runRows)) await this.#look(row)
  }

  /** Periodic job: deletes old containments. */
  async forget(stopping?: AbortSignal): Promise<void> {
    const { database, clock } = this.#deps
    await deleteExpired(database.db, clock.now())
    while (!stopping?.aborted && (await deleteOld(database.db, clock.now() - keptMs, runRows)) === runRows);
  }

  async whenIdle(): Promise<void> {
    await Promise.all(this.#running.values())
  }

  async #work(id: string): Promise<void> {
    const { database, clock, log } = this.#deps
    const row = await claim(database.db, id, this.worker, clock.now(), clock.now() + leaseMs)
    if (!row) return
    let publishing = Promise.resolve()
    for (let failed = 0; ; ) {
      const part = await nextPart(database.db, id)
      if (!part) break
      try {
        const messages = await this.#changePart(row, part.position, JSON.parse(part.members))
        failed = 0
        // The database processes the next part at the same time.
        publishing = publishing.then(() => publishAll(this.#deps, this.#facts, messages))
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

  #changePart(row: ContainmentRow, position: number, members: readonly FleetMember[]) {
    const { database } = this.#deps
    const { id, action, reason } = row
    const parts = { suspensionFacts: this.#facts, enforcement: this.#enforcement, outbox: this.#outbox }
    return changeFleet(this.#deps, parts, {
      containmentId: id,
      members,
      action,
      reason,
      actor: JSON.parse(row.actor) as Actor,
      judge: (suspended) => readStopVerdicts(database, suspended, row.two_person === 1),
      around: (moves, now) => ({
        before: [holdPart(database, id, position)],
        check: checkUnchanged(database, id, position, unchangedCount(database, moves), moves.length),
        after: donePartStatements(database, {
          id,
          position,
          changed: JSON.stringify(moves.map((move) => [move.id, move.version])),
          skipped: members.length - moves.length,
          now,
          leasedUntil: now + leaseMs,
        }),
      }),
    })
  }

  /** Reports the result once it is known, and stores the counts once they are final. */
  async #look(row: ContainmentRow): Promise<void> {
    const { database, clock, config, timekeeping } = this.#deps
    const { acknowledgeMs } = settingsOf(config)
    const now = clock.now()
    const progress = await readProgress(database, row, this.#enforcement.points, now - acknowledgeMs)
    const state = stateOf(progress, row.changed_at, now, acknowledgeMs)
    const isComplete = state === 'complete'
    // A clock change makes a new containment look old.
    const isLate = now >= row.changed_at! + acknowledgeMs
    const isOverdue = !isComplete && state !== 'in_progress' && isLate && timekeeping.mayJudge()
    const reported = isComplete ? ('complete' as const) : isOverdue ? ('incomplete' as const) : null
    const isNews = reported !== null && reported !== row.reported
    // An agent proven silent may still continue later, as long as the suspension lasts.
    const isFinal = (isComplete && !progress.lasting) || now > row.changed_at! + looks.untilMs
    const changes = {
      look_at: now + (now < row.changed_at! + looks.soonForMs ? looks.soonMs : looks.laterMs),
      ...(isNews ? { reported } : {}),
      ...(isComplete ? { completed_at: Math.max(row.changed_at!, progress.lastConfirmedAt ?? 0) } : {}),
      ...(isFinal ? { counts: JSON.stringify(progress) } : {}),
    }
    const agents = row.requested === 1 ? '1 agent' : `${row.requested} agents`
    const what = `${row.action === 'suspend' ? 'suspension' : 'resume'} of ${agents}`
    const alert = isComplete
      ? {
          severity: 'info' as const,
          event_type: alertTypes.containmentCompleted,
          description: `The ${what} is complete: ${progress.confirmed} confirmed${progress.skipped > 0 ? `, ${progress.skipped} skipped` : ''}.`,
        }
      : {
          severity: 'critical' as const,
          event_type: alertTypes.containmentIncomplete,
          description: `${missingText(progress, agents)} did not confirm the ${row.action} within ${acknowledgeMs / 1_000} seconds; wardline containments ${row.id} lists them.`,
        }
    const alerts = isNews ? this.#outbox.ownStatements([{ ...alert, instance_id: null, subject: row.id }], now) : []
    try {
      await database.batch([...lookedStatements(database, row, changes), ...alerts])
    } catch (fault) {
      // Another process was faster.
      if (!(fault instanceof DatabaseError && fault.stale)) throw fault
      return
    }
    if (isNews) this.#outbox.notify()
  }
}
