import { type EventBatchReply, type EventCreated, type EventQuery, limits, type NewEvent } from '@wardline/contract'
import { onlyName } from '@wardline/text'
import { isoTime } from '../../clock.ts'
import type { Db, Statement } from '../../db/database.ts'
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

/** What a judge adds to the events that it looked at, within their transaction. */
export interface Findings {
  /** Events by the service itself, charged to the key that reported the others. */
  events: EventToStore[]
  statements: Statement[]
}

/** Calls `store` once with what was found, and resolves with what that resolves with: judges may take turns meanwhile. */
type Judging = (store: (findings: Findings) => Promise<Earlier>) => Promise<Earlier>

/**
 * Looks at the events of a request before they are stored. Undefined when there is nothing to judge, as in nearly all:
 * every event of every agent comes by here, and then costs no promise and no query.
 */
export type Judge = (events: readonly EventToStore[]) => Judging | undefined

/** Limits on the reports of a key. */
interface EventQuota {
  /** Takes the quota of events that come together. Throws AppError `quota_exceeded`. */
  takeEvents(keyId: string, ordinary: number, critical: number, bytes: number): void
  /** Charges events that the service adds to those of a key. */
  chargeEvents(keyId: string, count: number): void
}

/** Watches agents that are suspended, whose events may come under no name. */
interface ReportWatch {
  /** Nobody is suspended. */
  readonly isEmpty: boolean
  /** Called after the commit. */
  noteReported(events: readonly EventToStore[], principal: Principal): void
}

/** Who reports. `idempotencyKey`: a request with the same one within 24 hours stores nothing and gets the same ids. */
export interface Reporter {
  principal: Principal
  /** The client's; null when it is not known any more. */
  address: string | null
  idempotencyKey: string | undefined
}

/** A batch as it came, and how its events are checked. */
interface Batch {
  bytes: Buffer
  /** One event a line, not a JSON array. */
  isLines: boolean
  /** What is wrong with a value that should be an event, as a sentence; undefined when it is one. */
  faultOf(value: unknown): string | undefined
  /** Hears why an event is refused that is one. */
  onRefused(fault: AppError): void
}

export interface Events {
  /** Stores what a caller reports. Throws AppError, also by rejecting. */
  report(report: NewEvent, reporter: Reporter): Promise<EventCreated>
  /** Stores the events of a batch that are valid, all in one transaction; says what is wrong with the others. */
  reportBatch(batch: Batch, reporter: Reporter): Promise<EventBatchReply>
  /** A page of events as JSON (EventList of the contract), newest first. `keyId`: who asks. */
  list(query: EventQuery, keyId: string): Promise<string>
}

/** Suspends the instance of a breach that is stored. */
interface BreachAnswers {
  answer(breach: {
    instanceId: string | undefined
    keyId: string
    eventId: string
    reason: string
    isRepeat: boolean
  }): Promise<unknown>
}

interface EventsTools {
  ingest: Pick<Ingest, 'store' | 'assertRoom'>
  judge: Judge
  quotas: EventQuota
  autoSuspension: BreachAnswers
  suspendedAgents: ReportWatch
}

/** Cost of checking an event and making its row. */
const unitsOfEvent = 10_000

/** Large batches of one key that are checked at a time: each takes several MiB, and more would only wait for each other. */
const maxBatches = 6

/** The one way of what callers report: checked → judged → stored. */
export function createEvents(
  { config, database, clock }: Pick<Deps, 'config' | 'database' | 'clock'>,
  { ingest, judge, quotas, autoSuspension, suspendedAgents }: EventsTools,
): Events {
  const suspends = config.autoSuspend?.includes('breach') === true

  /**
   * Suspends those whose breach was stored, before the caller has its answer. A caller whose request failed in between
   * repeats it, and its events have the ids of the first time.
   */
  async function answerBreaches(
    events: readonly EventToStore[],
    { keyId, instances }: Principal,
    earlier: Earlier,
  ): Promise<void> {
    const breaches = new Map<string | undefined, number>()
    for (const [index, { severity, instance_id }] of events.entries()) {
      if (severity !== 'breach') continue
      // What the key proves, not what the caller claims.
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

  async function store(events: EventToStore[], kind: Once['kind'], reporter: Reporter): Promise<Earlier> {
    const earlier = await storeJudged(events, kind, reporter)
    if (!earlier) suspendedAgents.noteReported(events, reporter.principal)
    if (suspends) await answerBreaches(events, reporter.principal, earlier)
    return earlier
  }

  function storeJudged(events: EventToStore[], kind: Once['kind'], reporter: Reporter): Promise<Earlier> {
    const { keyId } = reporter.principal
    const once = onceOf(events, kind, reporter)
    const judging = judge(events)
    if (!judging) return ingest.store(events, { keyId, once })
    return judging((findings) => {
      if (findings.events.length > 0) quotas.chargeEvents(keyId, findings.events.length)
      return ingest.store([...events, ...findings.events], { also: findings.statements, keyId, once })
    })
  }

  /** The row of one event of a batch, or why it is refused. */
  function accept(value: unknown, batch: Batch, { principal, address }: Reporter, now: number): EventToStore | string {
    const fault = batch.faultOf(value)
    if (fault !== undefined) return fault
    try {
      const report = value as NewEvent
      assertMayActFor(principal, report.instance_id)
      return eventToStore(report, address, now)
    } catch (refusal) {
      if (!(refusal instanceof AppError)) throw refusal
      batch.onRefused(refusal)
      return refusal.message
    }
  }

  /** Checks a batch in slices: a thousand events at once would hold the event loop. */
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

  // While no breach suspends and nobody is suspended, an event costs no promise more.
  const storeAndAnswer: typeof store = (events, kind, reporter) =>
    suspends || !suspendedAgents.isEmpty ? store(events, kind, reporter) : storeJudged(events, kind, reporter)

  return {
    report(report, reporter) {
      const { principal, address } = reporter
      assertMayActFor(principal, report.instance_id)
      const event = eventToStore(report, address, clock.now())
      if (isUrgent(event)) quotas.takeEvents(principal.keyId, 0, 1, 0)
      else quotas.takeEvents(principal.keyId, 1, 0, eventBytes(event))
      return storeAndAnswer([event], 'event', reporter).then((earlier) => ({ ok: true, id: earlier?.[0] ?? event.id }))
    },

    async reportBatch(batch, reporter) {
      const { bytes } = batch
      const { keyId } = reporter.principal
      // Reading a thousand events only to refuse them would cost others more time than storing them.
      if (!mayBeCritical(bytes)) ingest.assertRoom(keyId, estimateEvents(bytes), bytes.length)
      // Goes on when the caller has gone: the last events of an agent that ends are worth having.
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
        const earlier = await storeAndAnswer(accepted, 'batch', reporter)
        if (earlier) assignIds(reply, earlier)
      }
      return { ...reply, ok: reply.errors.length === 0 }
    },

    list(query, keyId) {
      const bounds = {
        after: 0,
        before: Number.MAX_SAFE_INTEGER,
        from: 0,
        to: Number.MAX_SAFE_INTEGER,
        ...cursorBounds(query),
        ...timeBounds(query),
        limit: pageLimit(query.limit),
      }
      return database.scan(keyId, (db) => readPage(db, query, bounds))
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

/** Gives the accepted events the ids under which they are stored. Throws AppError `invalid` when their number differs. */
function assignIds(reply: EventBatchReply, ids: readonly string[]): void {
  if (reply.ids.filter((id) => id !== null).length !== ids.length) {
    throw new AppError('invalid', 'Idempotency-Key was used before, for a batch with another number of valid events.')
  }
  let next = 0
  reply.ids = reply.ids.map((id) => (id === null ? null : ids[next++]!))
}

/** Rows read at once, and characters after which a page ends: rows of 17 KiB must not become an answer of 17 MiB. */
const sliceRows = 200
const maxPageLength = 2 * 1024 * 1024

interface PageBounds {
  after: number
  before: number
  from: number
  to: number
  limit: number
}

async function readPage(db: Db, query: EventQuery, { before, limit, ...range }: PageBounds): Promise<string> {
  const rows: string[] = []
  let length = 0
  let next: number | undefined = before
  while (next !== undefined && rows.length < limit && length < maxPageLength) {
    const wanted = Math.min(sliceRows, limit - rows.length)
    const slice = await readEvents(db, query, { ...range, before: next, limit: wanted })
    for (const row of slice.rows) {
      const json = eventRowJson(row)
      length += json.length
      rows.push(json)
    }
    next = slice.lookedDownTo
    // A slice that is not full looked at as many rows as one page may.
    if (slice.rows.length < wanted) break
  }
  if (next === undefined || next <= range.after + 1) return `{"events":[${rows.join(',')}],"next":null}`
  const scannedTo = rows.length < limit ? await readTimeOf(db, next) : undefined
  const scanned = scannedTo === undefined ? '' : `,"scanned_to":"${isoTime(scannedTo)}"`
  return `{"events":[${rows.join(',')}],"next":"${next}"${scanned}}`
}
