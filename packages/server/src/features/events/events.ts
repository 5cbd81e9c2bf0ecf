import {
  type EventBatchReply,
  type EventCreated,
  type EventQuery,
  eventTypes,
  limits,
  type NewEvent,
  serviceSource,
} from '@wardline/contract'
import { onlyName } from '@wardline/text'
import { isoTime } from '../../clock.ts'
import type { Db, Statement } from '../../db/database.ts'
import type { Team } from '../../db/teams.ts'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import { assertMayActFor, type Principal } from '../../http/auth.ts'
import { cursorBounds, pageLimit, timeBounds } from '../../http/page.ts'
import { type Piece, type Slices, type WorkBudget, workLane } from '../../work-turns.ts'
import { type BatchItem, batchItems } from './batch.ts'
import { countCritical, estimateEvents, eventBytes, isUrgent, mayBeCritical } from './event-cost.ts'
import { eventRowJson } from './event-row.ts'
import type { Earlier, EventToStore, Ingest, Once } from './ingest.ts'
import { eventToStore } from './new-event.ts'
import { readEvents, readTimeOf } from './queries.ts'
import type { SessionMetrics } from './session-metrics.ts'

/** Additions by a judge to the transaction of the judged events. */
export interface Findings {
  /** Events by the service itself, charged to the quota of the reporting key. */
  events: EventToStore[]
  statements: Statement[]
}

/** Calls `store` once with the findings and resolves with its result. May wait for its turn before. */
type Judging = (store: (findings: Findings) => Promise<Earlier>) => Promise<Earlier>

/**
 * Inspects the events of a request before they are stored. Returns undefined if there is nothing to judge, as for nearly
 * all requests, so that an ordinary event costs neither a promise nor a query.
 */
export type Judge = (events: readonly EventToStore[]) => Judging | undefined

/** Limits on the reports of a key. */
interface EventQuota {
  /** Takes the quota for the events of a request. Throws AppError `quota_exceeded`. */
  takeEvents(keyId: string, ordinary: number, critical: number, bytes: number): void
  /** Charges events that the service adds to those of the key. */
  chargeEvents(keyId: string, count: number): void
}

/** Watches suspended agents, whose events may lack an instance id. */
interface ReportWatch {
  /** True if no agent is suspended. */
  readonly isEmpty: boolean
  /** Called after the commit. */
  noteReported(events: readonly EventToStore[], principal: Principal): void
}

/** The reporting caller. A request with the same `idempotencyKey` within 24 hours stores nothing and gets the same ids. */
export interface Reporter {
  principal: Principal
  /** Address of the client; null if its connection is closed already. */
  address: string | null
  idempotencyKey: string | undefined
}

export interface KeyedReports {
  reports: NewEvent[]
  /** Telemetry of what a client of the agent reported before: stored, but not counted. */
  isSecond?: boolean
  idempotencyKey: string
}

/** The body of a batch, and how its events are validated. */
interface Batch {
  bytes: Buffer
  /** One event per line instead of a JSON array. */
  isLines: boolean
  /** Returns a sentence that says what is wrong with the value; undefined for a valid event. */
  faultOf(value: unknown): string | undefined
  /** Receives the instances that its events name and the key may act for. */
  named: Set<string>
  /** Called with the reason when a valid event is refused. */
  onRefused(fault: AppError): void
}

export interface Events {
  /** Stores a reported event. Throws AppError synchronously or rejects with it. */
  report(report: NewEvent, reporter: Reporter): Promise<EventCreated>
  /**
   * Stores groups of reports, each group once for its `idempotencyKey`, with one charge to the quotas for all: what failed is
   * stored when they are reported again. Rejects with AppError.
   */
  reportGroups(groups: readonly KeyedReports[], reporter: Omit<Reporter, 'idempotencyKey'>): Promise<void>
  /** Stores the valid events of a batch in one transaction; resolves with their ids and the errors of the others. */
  reportBatch(batch: Batch, reporter: Reporter): Promise<EventBatchReply>
  /** Stores what the service measured of an agent, judged like what agents report; once for each `key`. */
  storeMeasured(instanceId: string, metrics: SessionMetrics, key: string): Promise<void>
  /** Returns a page of events as JSON (EventList of the contract), newest first. */
  list(query: EventQuery, caller: Pick<Principal, 'keyId' | 'team'>): Promise<string>
}

/** Suspends the instance of a stored breach. */
interface BreachAnswers {
  answer(breach: {
    instanceId: string | undefined
    keyId: string
    eventId: string
    reason: string
    isRepeat: boolean
  }): Promise<unknown>
}

/** Compares the paths of reported tool calls with decoys. */
interface CallWatch {
  /**
   * Returns undefined if no decoy can match, as for nearly all requests, so that an ordinary event costs no promise. Else
   * resolves with a function that records the hits, to be called after the commit; undefined if there are none.
   */
  compare(
    events: readonly EventToStore[],
    reporter: Reporter,
  ): Promise<((earlier: Earlier) => Promise<void>) | undefined> | undefined
}

interface EventsTools {
  ingest: Pick<Ingest, 'own' | 'store' | 'assertRoom'>
  judge: Judge
  quotas: EventQuota
  autoSuspension: BreachAnswers
  suspendedAgents: ReportWatch
  reportedCalls: CallWatch
}

/** Cost of validating an event and building its row. */
const unitsOfEvent = 10_000

/** Large batches of one key that are processed concurrently: each takes several MiB, and more would not be faster. */
const maxBatches = 6

/** The only path of reported events: validated → judged → stored. */
export function createEvents(
  { config, database, clock }: Pick<Deps, 'config' | 'database' | 'clock'>,
  { ingest, judge, quotas, autoSuspension, suspendedAgents, reportedCalls }: EventsTools,
): Events {
  const suspends = config.autoSuspend?.includes('breach') === true

  /**
   * Suspends the instances of stored breaches before the caller gets its response. If the request fails in between, the
   * caller retries it, and the events keep their first ids.
   */
  async function answerBreaches(
    events: readonly EventToStore[],
    { keyId, instances }: Principal,
    earlier: Earlier,
  ): Promise<void> {
    const breaches = new Map<string | undefined, number>()
    for (const [index, { severity, instance_id }] of events.entries()) {
      if (severity !== 'breach') continue
      // Prefer the instance that the key is bound to over the one that the caller names.
      const instanceId = onlyName(instances ?? []) ?? instance_id ?? undefined
      if (!breaches.has(instanceId)) breaches.set(instanceId, index)
    }
    const answers = [...breaches].map(([instanceId, index]) => {
      const eventId = earlier?.[index] ?? events[index]!.id
      const reason = `An event of severity breach was reported (event ${eventId})`
      return autoSuspension.answer({ instanceId, keyId, eventId, reason, isRepeat: earlier !== undefined })
    })
    await Promise.all(answers)
  }

  function store(events: EventToStore[], kind: Once['kind'], reporter: Reporter): Promise<Earlier> {
    const comparing = reportedCalls.compare(events, reporter)
    if (!comparing) return storeAndAnswer(events, kind, reporter)
    return comparing.then(async (recordHits) => {
      const earlier = await storeAndAnswer(events, kind, reporter)
      await recordHits?.(earlier)
      return earlier
    })
  }

  function storeAndAnswer(events: EventToStore[], kind: Once['kind'], reporter: Reporter): Promise<Earlier> {
    const stored = judgeAndStore(events, onceOf(events, kind, reporter), reporter.principal.keyId)
    // Without suspending breaches and suspended agents, avoid a further promise per event.
    if (!suspends && suspendedAgents.isEmpty) return stored
    return stored.then(async (earlier) => {
      if (!earlier) suspendedAgents.noteReported(events, reporter.principal)
      if (suspends) await answerBreaches(events, reporter.principal, earlier)
      return earlier
    })
  }

  /** `keyId`: undefined for an event of the service. */
  function judgeAndStore(events: EventToStore[], once: Once | undefined, keyId?: string): Promise<Earlier> {
    const judging = judge(events)
    if (!judging) return ingest.store(events, { keyId, once })
    return judging((findings) => {
      if (keyId !== undefined && findings.events.length > 0) quotas.chargeEvents(keyId, findings.events.length)
      return ingest.store([...events, ...findings.events], { also: findings.statements, keyId, once })
    })
  }

  /** Returns the row of one event of a batch, or the sentence that says why it is refused. */
  function accept(value: unknown, batch: Batch, { principal, address }: Reporter, now: number): EventToStore | string {
    const fault = batch.faultOf(value)
    if (fault !== undefined) return fault
    try {
      const report = value as NewEvent
      assertMayActFor(principal, report.instance_id)
      if (report.instance_id !== undefined) batch.named.add(report.instance_id)
      return eventToStore(report, address, now)
    } catch (refusal) {
      if (!(refusal instanceof AppError)) throw refusal
      batch.onRefused(refusal)
      return refusal.message
    }
  }

  /** Validates a batch in slices, because a thousand events at once would block the event loop. */
  function* acceptAll(
    items: readonly BatchItem[],
    batch: Batch,
    reporter: Reporter,
    budget: WorkBudget,
  ): Slices<(EventToStore | string)[]> {
    const now = clock.now()
    const outcomes: (EventToStore | string)[] = []
    for (const item of items) {
      outcomes.push('fault' in item ? item.fault : accept(item.value, batch, reporter, now))
      budget.count(unitsOfEvent)
      if (budget.isSliceOver()) yield
    }
    return outcomes
  }

  async function checkBatch(batch: Batch, reporter: Reporter, piece: Piece): Promise<(EventToStore | string)[]> {
    const budget = piece.budget(Number.MAX_SAFE_INTEGER)
    const items = await piece.inTurns(batchItems(batch.bytes, batch.isLines, budget))
    const critical = countCritical(items)
    const ordinary = items.length - critical
    const bytes = (batch.bytes.length * ordinary) / items.length
    quotas.takeEvents(reporter.principal.keyId, ordinary, critical, bytes)
    return piece.inTurns(acceptAll(items, batch, reporter, budget))
  }

  return {
    report(report, reporter) {
      const { principal, address } = reporter
      assertMayActFor(principal, report.instance_id)
      const event = eventToStore(report, address, clock.now())
      if (isUrgent(event)) quotas.takeEvents(principal.keyId, 0, 1, 0)
      else quotas.takeEvents(principal.keyId, 1, 0, eventBytes(event))
      return store([event], 'event', reporter).then((earlier) => ({ ok: true, id: earlier?.[0] ?? event.id }))
    },

    async reportGroups(groups, { principal, address }) {
      const now = clock.now()
      const kept = groups.map(({ reports, idempotencyKey, isSecond }) => {
        for (const { instance_id } of reports) assertMayActFor(principal, instance_id)
        return { events: reports.map((report) => eventToStore(report, address, now, isSecond)), idempotencyKey }
      })
      const all = kept.flatMap(({ events }) => events)
      const bytes = all.reduce((total, event) => total + eventBytes(event), 0)
      if (all.length > 0) quotas.takeEvents(principal.keyId, all.length, 0, bytes)
      const results = await Promise.allSettled(
        kept.map(async ({ events, idempotencyKey }) => store(events, 'batch', { principal, address, idempotencyKey })),
      )
      for (const result of results) if (result.status === 'rejected') throw result.reason
    },

    async reportBatch(batch, reporter) {
      const { bytes } = batch
      const { keyId } = reporter.principal
      // Refuse a batch before parsing it if there is no room: parsing takes longer than storing.
      if (!mayBeCritical(bytes)) ingest.assertRoom(keyId, estimateEvents(bytes), bytes.length)
      // Not cancelled when the caller disconnects: the last events of an agent that exits are valuable.
      const piece = workLane.open(`batches of ${keyId}`, { max: maxBatches })
      const outcomes = await checkBatch(batch, reporter, piece).finally(() => piece.end())
      const reply: EventBatchReply = { ok: true, ids: [], errors: [] }
      const accepted: EventToStore[] = []
      for (const [index, outcome] of outcomes.entries()) {
        if (typeof outcome === 'string') reply.errors.push({ index, error: outcome })
        else accepted.push(outcome)
        reply.ids.push(typeof outcome === 'string' ? null : outcome.id)
      }
      if (accepted.length > 0) {
        const earlier = await store(accepted, 'batch', reporter)
        if (earlier) assignIds(reply, earlier)
      }
      return { ...reply, ok: reply.errors.length === 0 }
    },

    async storeMeasured(instanceId, metrics, key) {
      const event = ingest.own({
        severity: 'info',
        event_type: eventTypes.sessionMetrics,
        description: JSON.stringify(metrics),
        instance_id: instanceId,
      })
      await judgeAndStore([event], { caller: serviceSource, kind: 'event', key, ids: [event.id] })
    },

    list(query, { keyId, team }) {
      const bounds = {
        after: 0,
        before: Number.MAX_SAFE_INTEGER,
        from: 0,
        to: Number.MAX_SAFE_INTEGER,
        ...cursorBounds(query),
        ...timeBounds(query),
        limit: pageLimit(query.limit),
      }
      return database.scan(keyId, (db) => readPage(db, query, bounds, team))
    },
  }
}

function onceOf(
  events: readonly EventToStore[],
  kind: Once['kind'],
  { principal, idempotencyKey: key }: Reporter,
): Once | undefined {
  if (key === undefined) return undefined
  if (key.length === 0 || key.length > limits.idempotencyKey) {
    throw new AppError('invalid', `Idempotency-Key must have 1 to ${limits.idempotencyKey} characters.`)
  }
  return { caller: principal.keyId, kind, key, ids: events.map(({ id }) => id) }
}

/** Sets the stored ids of the accepted events in the reply. Throws AppError `invalid` if their number differs. */
function assignIds(reply: EventBatchReply, ids: readonly string[]): void {
  if (reply.ids.filter((id) => id !== null).length !== ids.length) {
    throw new AppError('invalid', 'Idempotency-Key was used before, for a batch with another number of valid events.')
  }
  let next = 0
  reply.ids = reply.ids.map((id) => (id === null ? null : ids[next++]!))
}

/** Rows per read, and characters after which a page ends: 1,000 rows of 17 KiB must not become a response of 17 MiB. */
const sliceRows = 200
const maxPageLength = 2 * 1024 * 1024

interface PageBounds {
  after: number
  before: number
  from: number
  to: number
  limit: number
}

async function readPage(
  db: Db,
  query: EventQuery,
  { before, limit, ...range }: PageBounds,
  team: Team,
): Promise<string> {
  const rows: string[] = []
  let length = 0
  let next: number | undefined = before
  while (next !== undefined && rows.length < limit && length < maxPageLength) {
    const wanted = Math.min(sliceRows, limit - rows.length)
    const slice = await readEvents(db, query, { ...range, before: next, limit: wanted }, team)
    for (const row of slice.rows) {
      const json = eventRowJson(row)
      length += json.length
      rows.push(json)
    }
    next = slice.lookedDownTo
    // An incomplete slice has reached the limit of rows to read per page.
    if (slice.rows.length < wanted) break
  }
  if (next === undefined || next <= range.after + 1) return `{"events":[${rows.join(',')}],"next":null}`
  const scannedTo = rows.length < limit ? await readTimeOf(db, next) : undefined
  const scanned = scannedTo === undefined ? '' : `,"scanned_to":"${isoTime(scannedTo)}"`
  return `{"events":[${rows.join(',')}],"next":"${next}"${scanned}}`
}
