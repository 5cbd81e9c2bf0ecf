import { Buffer } from 'node:buffer'
import type { NewEvent } from './events.ts'

/** Queue limits for outages of the service: enough for some hours of a busy agent. */
const maxEvents = 10_000
const maxBytes = 8 * 1024 * 1024
/** Half of the service's limits per batch, so that batches pass proxies with smaller limits. */
const maxBatchEvents = 500
const maxBatchBytes = 512 * 1024

interface Entry {
  json: string
  bytes: number
}

export interface Batch {
  /** Must be resent unchanged: the service detects repeats by the idempotency key. */
  body: string
  idempotencyKey: string
  events: number
  isUrgent: boolean
  /** Returns the events to the front of the queue, after the service has stored none of them. */
  putBack(): void
}

const isUrgent = ({ severity }: NewEvent): boolean => severity === 'critical' || severity === 'breach'

/** Queue of events as JSON. Urgent ones are sent first and dropped last. */
export class ReportQueue {
  readonly #urgent: Entry[] = []
  readonly #others: Entry[] = []
  #bytes = 0
  #dropped = 0

  get length(): number {
    return this.#urgent.length + this.#others.length
  }

  get isUrgent(): boolean {
    return this.#urgent.length > 0
  }

  /** Returns the number of events dropped since the last call. */
  takeDropped(): number {
    const dropped = this.#dropped
    this.#dropped = 0
    return dropped
  }

  /**
   * Adds an event, dropping the oldest non-urgent events first if the queue is full. False when the event itself is
   * dropped.
   */
  add(event: NewEvent): boolean {
    const json = JSON.stringify(event)
    const entry = { json, bytes: Buffer.byteLength(json) }
    while (this.length >= maxEvents || this.#bytes + entry.bytes > maxBytes) {
      const oldest = this.#others.shift() ?? (isUrgent(event) ? this.#urgent.shift() : undefined)
      this.#dropped += 1
      if (!oldest) return false
      this.#bytes -= oldest.bytes
    }
    this.#bytes += entry.bytes
    const lane = isUrgent(event) ? this.#urgent : this.#others
    lane.push(entry)
    return true
  }

  /** Removes the next events and returns them with `first` as one batch; undefined when there are none. */
  takeBatch(first: NewEvent[]): Batch | undefined {
    const lanes = [this.#urgent, this.#others]
    let bytes = 0
    let room = maxBatchEvents - first.length
    const taken = lanes.map((lane) => {
      const isNext = (entry: Entry, place: number) => place < room && bytes + entry.bytes <= maxBatchBytes
      let count = 0
      for (; count < lane.length && isNext(lane[count]!, count); count++) bytes += lane[count]!.bytes
      room -= count
      return lane.splice(0, count)
    })
    this.#bytes -= bytes
    const all = [...first.map((event) => JSON.stringify(event)), ...taken.flat().map(({ json }) => json)]
    if (all.length === 0) return undefined
    return {
      body: `[${all.join(',')}]`,
      idempotencyKey: crypto.randomUUID(),
      events: all.length,
      isUrgent: taken[0]!.length > 0,
      putBack: () => {
        for (const [place, lane] of lanes.entries()) lane.unshift(...taken[place]!)
        this.#bytes += bytes
      },
    }
  }
}
