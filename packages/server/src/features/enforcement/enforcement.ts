import { setTimeout as pause } from 'node:timers/promises'
import { eventTypes } from '@wardline/contract'
import { isoTime } from '../../clock.ts'
import { allowedById, type Point } from '../../config/enforcement-points.ts'
import type { Statement } from '../../db/database.ts'
import type { Deps } from '../../deps.ts'
import { randomBetween, randomSecret } from '../../ids.ts'
import { retryAt } from '../alerts/delivery/retry-schedule.ts'
import type { EventToStore, Ingest } from '../events/ingest.ts'
import { eventsGoneBefore } from '../events/retention.ts'
import {
  type CallRow,
  callsStatement,
  claimCalls,
  deleteCallsBefore,
  type EnforcedChange,
  hasFailures,
  recordAttempt,
  releaseCalls,
  supersede,
  takeFailures,
} from './call-statements.ts'
import { Caller, newCallId, requestOf, testRequest } from './caller.ts'

/** Pauses after failed attempts: nine attempts within some nine minutes, because late enforcement is of little use. */
const pausesMs = [1, 2, 5, 10, 30, 60, 120, 300].map((seconds) => seconds * 1_000)
/** Upper bound of Retry-After: a point may delay a call, but not indefinitely. */
const maxAskedSeconds = 300
/** Concurrent attempts per point, so that the suspension of a fleet does not flood an API server. */
const atOnce = 8
/** Lease of a call: how long a crashed process blocks it. A third more than the maximum duration of an attempt. */
const leaseMs = 20_000
/** How long results are kept while the database is unavailable; otherwise points would be called again. */
const retryResultMs = 250
/** Failures within this time are reported together, because a dead point fails for each agent of a fleet. */
const reportEveryMs = 60_000
/** Failures per transaction, and instances listed per point in a report. */
const reportRows = 500
const maxNamed = 20
/** Rows deleted per statement: a few milliseconds. */
const chunkRows = 500

/**
 * Calls the operator's enforcement points. Calls are stored in the transaction that suspends or resumes, and claimed with a
 * lease by any process. A point may be called twice with the same id if its response was lost.
 */
export class Enforcement {
  readonly points: readonly Point[]
  readonly #deps: Deps
  readonly #ingest: Pick<Ingest, 'own' | 'storeWithin'>
  readonly #caller: Caller
  /** Id of this process in leases. */
  readonly #owner = randomSecret(12)
  readonly #underWay = new Map<string, Set<Promise<void>>>()
  readonly #claiming = new Set<string>()
  readonly #turns = new Set<Promise<void>>()
  readonly #cut = new AbortController()
  #reportedAt = -Infinity
  #isClosing = false

  constructor(deps: Deps, { points, ingest }: { points: readonly Point[]; ingest: Ingest }) {
    this.#deps = deps
    this.points = points
    this.#ingest = ingest
    this.#caller = new Caller(deps)
  }

  /** Releases calls claimed by an earlier process, where that process cannot be running any more. */
  async open(): Promise<void> {
    const { database } = this.#deps
    if (this.points.length > 0 && !database.isShared) await releaseCalls(database.db)
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
    const turn = this.run()
      .catch((fault) => this.#deps.log.warn({ err: fault }, 'calls of enforcement points wait for the next turn'))
      .finally(() => this.#turns.delete(turn))
    this.#turns.add(turn)
  }

  /** Periodic job: starts due calls and reports failed ones. Resolves before the calls are answered. */
  async run(): Promise<void> {
    const { database, clock } = this.#deps
    if (this.points.length === 0 || this.#isClosing) return
    const names = this.points.map(({ name }) => name)
    await supersede(database.db, names, clock.now())
    await Promise.all(this.points.map((point) => this.#begin(point)))
    if (clock.monotonic() - this.#reportedAt < reportEveryMs || !(await hasFailures(database.db))) return
    await this.#report()
    this.#reportedAt = clock.monotonic()
  }

  /** Calls a point with `action: "test"`; resolves with its response. */
  async test(point: Point) {
    const { clock } = this.#deps
    const started = clock.monotonic()
    const now = clock.now()
    const { status, error } = await this.#caller.call(
      point,
      newCallId(now),
      testRequest(isoTime(now)),
      this.#cut.signal,
    )
    const duration_ms = Math.max(0, Math.round(clock.monotonic() - started))
    return { point: point.name, ok: error === null, status, error, duration_ms }
  }

  /** Resolves when no call is running. */
  async whenIdle(): Promise<void> {
    for (;;) {
      const work = [...this.#turns, ...[...this.#underWay.values()].flatMap((calls) => [...calls])]
      if (work.length === 0) return
      await Promise.all(work)
    }
  }

  /** Starts nothing new, gives running calls a moment to end, and leaves the others to the next process. */
  async close(graceMs: number): Promise<void> {
    this.#isClosing = true
    const cut = setTimeout(() => this.#cut.abort(), graceMs)
    await this.whenIdle()
    clearTimeout(cut)
    this.#cut.abort()
    await this.#caller.close()
    if (this.points.length > 0) await releaseCalls(this.#deps.database.db, this.#owner)
  }

  /** Periodic job: deletes calls once retention deleted the events of their time. */
  async forget(stopping?: AbortSignal): Promise<void> {
    const cutoff = await eventsGoneBefore(this.#deps)
    while (!stopping?.aborted && (await deleteCallsBefore(this.#deps.database.db, cutoff, chunkRows)) === chunkRows);
  }

  #callsOf({ name }: Point): Set<Promise<void>> {
    const known = this.#underWay.get(name) ?? new Set()
    this.#underWay.set(name, known)
    return known
  }

  /** Each point has a separate queue, so that a slow or unreachable one does not delay others. */
  async #begin(point: Point): Promise<void> {
    const busy = this.#callsOf(point)
    const { database, clock } = this.#deps
    if (this.#claiming.has(point.name)) return
    this.#claiming.add(point.name)
    try {
      while (!this.#isClosing && busy.size < atOnce) {
        const limit = atOnce - busy.size
        const now = clock.now()
        const rows = await claimCalls(database.db, { point: point.name, owner: this.#owner, now, leaseMs, limit })
        for (const row of rows) {
          const work = this.#attempt(point, row)
            .catch((fault) => this.#deps.log.warn({ err: fault, point: point.name }, 'a call is repeated later'))
            .finally(() => {
              busy.delete(work)
              this.#goOn(point)
            })
          busy.add(work)
        }
        if (rows.length < limit) return
      }
    } finally {
      this.#claiming.delete(point.name)
    }
  }

  /** Starts the next call when one has ended. */
  #goOn(point: Point): void {
    if (this.#isClosing) return
    const turn = this.#begin(point)
      .catch((fault) => this.#deps.log.warn({ err: fault }, 'calls of enforcement points wait for the next turn'))
      .finally(() => this.#turns.delete(turn))
    this.#turns.add(turn)
  }

  async #attempt(point: Point, row: CallRow): Promise<void> {
    const { clock, metrics, log } = this.#deps
    const until = clock.monotonic() + leaseMs
    const {
      status,
      error,
      retryAfterSeconds = 0,
    } = await this.#caller.call(point, row.id, requestOf(row), this.#cut.signal)
    // An attempt cut off by the shutdown is not a failure.
    if (this.#cut.signal.aborted && error !== null) return
    const now = clock.now()
    const spread = randomBetween(0, 1_000) / 1_000
    const asked = Math.min(retryAfterSeconds, maxAskedSeconds)
    const nextAt = error === null ? undefined : retryAt(pausesMs, row.attempts + 1, now, spread, asked)
    await this.#record({ id: row.id, owner: this.#owner, status, error, now, nextAt }, until)
    const hasFailed = error !== null && nextAt === undefined
    metrics.enforcementAttempts.inc({ result: error === null ? 'confirmed' : hasFailed ? 'failed' : 'retried' })
    const { instance_id: instanceId, version, action } = row
    log.info({ point: point.name, instanceId, version, action, status, error }, 'enforcement point called')
  }

  async #record(result: Parameters<typeof recordAttempt>[1], until: number): Promise<void> {
    for (;;) {
      try {
        await recordAttempt(this.#deps.database.db, result)
        return
      } catch (fault) {
        if (this.#isClosing || this.#deps.clock.monotonic() >= until) throw fault
        await pause(retryResultMs)
      }
    }
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
