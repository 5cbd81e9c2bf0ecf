import { eventTypes } from '@wardline/contract'
import { isoTime } from '../../clock.ts'
import { allowedById, type Point } from '../../config/enforcement-points.ts'
import type { Statement } from '../../db/database.ts'
import { inPortions } from '../../db/portions.ts'
import { Delivery } from '../../delivery/delivery.ts'
import type { Deps } from '../../deps.ts'
import type { EventToStore, Ingest } from '../events/ingest.ts'
import { eventsGoneBefore } from '../events/retention.ts'
import {
  type Answer,
  type CallAttempt,
  type CallRow,
  calls,
  callsStatement,
  claimCalls,
  deleteCallsBefore,
  type EnforcedChange,
  hasFailures,
  recordAttempt,
  supersede,
  takeFailures,
} from './call-statements.ts'
import { Caller, newCallId, requestOf, testRequest } from './caller.ts'

/** Pauses after failed attempts: nine attempts within some nine minutes, because late enforcement is of little use. */
const pausesMs = [1, 2, 5, 10, 30, 60, 120, 300].map((seconds) => seconds * 1_000)
/** Concurrent attempts per point, so that the suspension of a fleet does not flood an API server. */
const atOnce = 8
/** Lease of a call: how long a crashed process blocks it. A quarter more than the maximum duration of an attempt. */
const leaseMs = 20_000
/** Failures within this time are reported together, because a dead point fails for each agent of a fleet. */
const reportEveryMs = 60_000
/** Failures per transaction, and instances listed per point in a report. */
const reportRows = 500
const maxNamed = 20

/** Calls the operator's enforcement points. Calls are stored in the transaction that suspends or resumes. */
export class Enforcement {
  readonly points: readonly Point[]
  readonly #deps: Deps
  readonly #ingest: Pick<Ingest, 'own' | 'storeWithin'>
  readonly #caller: Caller
  /** Each point is a lane, so that a slow or unreachable one does not delay others. */
  readonly #delivery: Delivery<Point, CallRow, Answer>
  #reportedAt = -Infinity
  #isClosing = false

  constructor(deps: Deps, { points, ingest }: { points: readonly Point[]; ingest: Ingest }) {
    this.#deps = deps
    this.points = points
    this.#ingest = ingest
    this.#caller = new Caller(deps)
    const { db } = deps.database
    this.#delivery = new Delivery(deps, {
      queue: calls,
      leaseMs,
      nameOf: ({ name }) => name,
      capacity: (point) => {
        const free = atOnce - this.#delivery.running(point)
        return { free, claim: free }
      },
      claim: ({ name }, claim, limit) => claimCalls(db, name, claim, limit),
      attempt: (point, row, signal) => this.#caller.call(point, row.id, requestOf(row), signal),
      close: () => this.#caller.close(),
      pausesMs: () => pausesMs,
      store: (attempt) => recordAttempt(db, attempt),
      stored: (point, attempt) => this.#count(point, attempt),
    })
  }

  /** Releases calls claimed by an earlier process, where that process cannot be running any more. */
  async open(): Promise<void> {
    if (this.points.length > 0) await this.#delivery.open()
  }

  /** Returns statements to append to the batch of a suspension or resume; none if no point is configured. */
  statements(change: EnforcedChange): Statement[] {
    const chosen = this.points.filter(({ actions }) => actions.includes(change.action))
    return chosen.flatMap((point) => {
      const calls = allowedById(point, change.instances).map(
        ({ id, version }) => [newCallId(change.now), id, version] as const,
      )
      return calls.length === 0 ? [] : [callsStatement(this.#deps.database, point, calls, change)]
    })
  }

  /** Calls a point about an instance with its current version, suspended or not; undefined: unknown point. */
  callStatements(name: string, instance: { id: string; version: number }, reason: string, now: number) {
    const point = this.points.find((known) => known.name === name)
    if (!point) return undefined
    const change = { action: 'suspend', instances: [instance], reason, containmentId: null, now } as const
    const calls = allowedById(point, [instance]).map(({ id, version }) => [newCallId(now), id, version] as const)
    return calls.length === 0 ? [] : [callsStatement(this.#deps.database, point, calls, change)]
  }

  notify(): void {
    if (this.points.length === 0 || this.#isClosing) return
    this.#delivery.track(
      this.run().catch((fault) =>
        this.#deps.log.warn({ err: fault }, 'calls of enforcement points wait for the next turn'),
      ),
    )
  }

  /** Periodic job: starts due calls and reports failed ones. Resolves before the calls are answered. */
  async run(): Promise<void> {
    const { database, clock } = this.#deps
    if (this.points.length === 0 || this.#isClosing) return
    const names = this.points.map(({ name }) => name)
    await supersede(database.db, names, clock.now())
    await Promise.all(this.points.map((point) => this.#delivery.send(point)))
    if (clock.monotonic() - this.#reportedAt < reportEveryMs || !(await hasFailures(database.db))) return
    await this.#report()
    this.#reportedAt = clock.monotonic()
  }

  /** Calls a point with `action: "test"`; resolves with its response. */
  async test(point: Point) {
    const { clock } = this.#deps
    const started = clock.monotonic()
    const now = clock.now()
    const request = testRequest(isoTime(now))
    const { status, error } = await this.#caller.call(point, newCallId(now), request, this.#delivery.cut)
    const duration_ms = Math.max(0, Math.round(clock.monotonic() - started))
    return { point: point.name, ok: error === null, status, error, duration_ms }
  }

  /** Resolves when no call is running. */
  whenIdle(): Promise<void> {
    return this.#delivery.whenIdle()
  }

  /** Starts nothing new, gives running calls a moment to end, and leaves the others to the next process. */
  async close(graceMs: number): Promise<void> {
    this.#isClosing = true
    if (this.points.length > 0) await this.#delivery.close(graceMs)
  }

  /** Periodic job: deletes calls once retention deleted the events of their time. */
  async forget(stopping?: AbortSignal): Promise<void> {
    const cutoff = await eventsGoneBefore(this.#deps)
    await inPortions((limit) => deleteCallsBefore(this.#deps.database.db, cutoff, limit), stopping)
  }

  #count({ name: point }: Point, { row, verdict, nextAt }: CallAttempt): void {
    const { metrics, log } = this.#deps
    const result = verdict.delivered ? 'confirmed' : nextAt === undefined ? 'failed' : 'retried'
    metrics.enforcementAttempts.inc({ result })
    const { instance_id: instanceId, version, action } = row
    const { status, error } = verdict
    log.info({ point, instanceId, version, action, status, error }, 'enforcement point called')
  }

  /** Reports unreported failures, in the transactions that mark them as reported. */
  async #report(): Promise<void> {
    const { database, clock } = this.#deps
    const named = new Map<string, number>()
    for (let count = reportRows; count === reportRows && !this.#isClosing; ) {
      const publish = await database.db.transaction().execute(async (trx) => {
        const rows = await takeFailures(trx, clock.now(), reportRows)
        count = rows.length
        const others = new Map<string, number>()
        const events: EventToStore[] = []
        for (const row of rows) {
          const before = named.get(row.point) ?? 0
          if (before < maxNamed) events.push(this.#ingest.own(this.#failedEvent(row)))
          else others.set(row.point, (others.get(row.point) ?? 0) + 1)
          named.set(row.point, before + 1)
        }
        for (const other of others) events.push(this.#ingest.own(othersEvent(...other)))
        return events.length > 0 ? this.#ingest.storeWithin(trx, events) : () => {}
      })
      publish()
    }
  }

  #failedEvent({ instance_id, version, point, action, attempts, last_status, last_error }: CallRow) {
    const host = this.points.find(({ name }) => name === point)?.host ?? null
    const wanted = action === 'suspend' ? 'the suspension' : 'the resume'
    return {
      severity: 'critical',
      event_type: eventTypes.enforcementFailed,
      description: `The enforcement point ${point} did not confirm ${wanted} after ${attempts} attempts: ${last_error}`,
      instance_id,
      metadata: { point, host, action, version, attempts, status: last_status },
    } as const
  }
}

const othersEvent = (point: string, instances: number) =>
  ({
    severity: 'critical',
    event_type: eventTypes.enforcementFailed,
    description: `The enforcement point ${point} did not confirm for ${instances} more instances`,
    metadata: { point, instances },
  }) as const
