import { clearTimeout, setTimeout } from 'node:timers'
import type { ActiveFaults } from './active-faults.ts'
import { droppedEvent, type NewEvent } from './events.ts'
import { MonitorError } from './faults.ts'
import { backoff, jittered, type Pace } from './pace.ts'
import { Repeat } from './repeat.ts'
import { type Batch, ReportQueue } from './report-queue.ts'
import { type Answer, isPassing, isRefused, isSuccess, type Service } from './service.ts'
import { type EventBatchReply, errorsOf } from './wire.ts'

/** This many waiting events are sent without waiting for more. */
const sendAt = 100

/** Sends events in batches and retries each batch until the service has answered it. */
export class Reports {
  readonly #service: Service
  readonly #faults: ActiveFaults
  readonly #pace: Pace
  readonly #instanceId: string
  readonly #queue = new ReportQueue()
  readonly #sender: Repeat
  readonly #waiting = new Set<() => void>()
  /** The batch in flight, unchanged until it is answered, and the number of drops that it reports. */
  #batch: Batch | undefined
  #reporting = 0
  #attempts = 0
  #dropped = 0
  /** Number of dropped events not yet reported in a batch. */
  #unreported = 0
  /**
   * The last answer refused events. A batch that only reports drops would be refused as well, so the report waits for
   * other events.
   */
  #wasRefused = false
  /**
   * Until this time the service accepts no events. Urgent ones are still sent unless it has refused urgent ones too.
   */
  #quietUntil = 0
  #isQuietForAll = false

  constructor(service: Service, faults: ActiveFaults, pace: Pace, instanceId: string) {
    this.#service = service
    this.#faults = faults
    this.#pace = pace
    this.#instanceId = instanceId
    this.#sender = new Repeat(() => this.#send(), Number.POSITIVE_INFINITY)
  }

  get queued(): number {
    return this.#queue.length + (this.#batch?.events ?? 0)
  }

  get dropped(): number {
    return this.#dropped
  }

  /** Queues an event, or notifies of the error if given a string. False when no event was queued. */
  add(event: NewEvent | string): boolean {
    if (typeof event === 'string') {
      this.#faults.notify(new MonitorError('invalid', `A report was not sent: ${event}.`))
      return false
    }
    const isAdded = this.#queue.add(event)
    const dropped = this.#queue.takeDropped()
    if (dropped > 0) {
      this.#countDropped(dropped)
      const help = 'Events are dropped, lower severities first, until the service accepts them again.'
      this.#faults.raise('queue', new MonitorError('dropped', `The queue of events is full. ${help}`))
    }
    // While a batch waits for its next attempt, queued events wait too.
    if (this.#batch === undefined) {
      this.#sender.within(this.#queue.isUrgent || this.#queue.length >= sendAt ? 0 : this.#pace.batch)
    }
    return isAdded
  }

  /** Resolves with true when the queue is empty, or with false after `timeoutMs`. */
  async flush(timeoutMs: number): Promise<boolean> {
    if (this.queued === 0) return true
    this.#sender.within(0)
    await new Promise<void>((resolve) => {
      // Not unref'ed: keeps a process without other work alive until the events are sent.
      const timer = setTimeout(done, timeoutMs)
      const waiting = this.#waiting.add(done)
      function done(): void {
        clearTimeout(timer)
        waiting.delete(done)
        resolve()
      }
    })
    return this.queued === 0
  }

  get #quietMs(): number {
    return Math.max(0, this.#quietUntil - performance.now())
  }

  /** Sends until the queue is empty or an attempt fails. Returns the milliseconds until the next attempt. */
  async #send(): Promise<number> {
    for (;;) {
      if (this.#quietMs > 0 && (this.#batch || this.#isQuietForAll || !this.#queue.isUrgent)) return this.#quietMs
      this.#batch ??= this.#nextBatch()
      if (this.#batch === undefined) break
      const { body, idempotencyKey } = this.#batch
      const answer = await this.#service.call('events/batch', {
        body,
        headers: { 'idempotency-key': idempotencyKey },
        timeoutMs: 2 * this.#pace.request,
      })
      const wait = this.#settle(this.#batch, answer)
      if (wait !== undefined) return wait
      this.#batch = undefined
    }
    for (const done of this.#waiting) done()
    return Number.POSITIVE_INFINITY
  }

  #nextBatch(): Batch | undefined {
    const hasDropped = this.#unreported > 0 && (this.#queue.length > 0 || !this.#wasRefused)
    this.#reporting = hasDropped ? this.#unreported : 0
    if (hasDropped) this.#unreported = 0
    return this.#queue.takeBatch(hasDropped ? [droppedEvent(this.#reporting, this.#instanceId)] : [])
  }

  /** Returns the milliseconds until the next attempt, or undefined if the batch was stored or dropped. */
  #settle(batch: Batch, answer: Answer): number | undefined {
    if (isSuccess(answer)) {
      this.#attempts = 0
      this.#isQuietForAll = false
      this.#faults.clear('queue')
      this.#faults.clear('reports')
      this.#countRefused(batch, errorsOf(answer.body, batch.events))
      return undefined
    }
    if (isRefused(answer)) {
      // The key is invalid, not the events.
      this.#faults.raise('reports', this.#service.explain(answer))
      return jittered(this.#pace.refused)
    }
    if (isPassing(answer)) {
      if (answer.status !== 0) this.#faults.raise('reports', this.#service.explain(answer))
      const wait = Math.max(answer.retryAfterMs ?? 0, backoff(this.#pace, this.#attempts++))
      this.#quietUntil = performance.now() + (answer.status === 429 ? wait : (answer.retryAfterMs ?? 0))
      if (answer.status === 429) this.#putBack(batch)
      return this.#batch === undefined && this.#queue.isUrgent && !this.#isQuietForAll ? 0 : wait
    }
    const { message } = this.#service.explain(answer)
    this.#loseBatch(batch, `${batch.events} events were dropped, because the service refused them. ${message}`)
    return undefined
  }

  /**
   * Requeues a batch refused for its quota (429). None of its events were stored, so urgent events that arrive
   * meanwhile may go first.
   */
  #putBack(batch: Batch): void {
    batch.putBack()
    this.#unreported += this.#reporting
    this.#isQuietForAll = batch.isUrgent
    this.#batch = undefined
  }

  #countRefused(batch: Batch, errors: EventBatchReply['errors']): void {
    this.#wasRefused = errors.length > 0
    if (errors.length === 0) return
    const first = this.#service.explain({ status: 400, body: { error: errors[0]?.error } }).message
    this.#countDropped(errors.length)
    const share = `${errors.length} of ${batch.events} events`
    this.#faults.notify(
      new MonitorError('dropped', `${share} were dropped, because the service refused them. ${first}`),
    )
  }

  #loseBatch(batch: Batch, sentence: string): void {
    this.#wasRefused = true
    this.#countDropped(batch.events - (this.#reporting > 0 ? 1 : 0))
    this.#unreported += this.#reporting
    this.#faults.notify(new MonitorError('dropped', sentence))
  }

  #countDropped(count: number): void {
    this.#dropped += count
    this.#unreported += count
  }
}
