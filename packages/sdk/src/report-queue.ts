import { Buffer } from 'node:buffer'
import type { NewEvent } from './wire.ts'

/** What may wait while the service is away: some hours of a busy agent. */
const maxEvents = 10_000
const maxBytes = 8 * 1024 * 1024
/** Half of what the service takes at once, so that proxies with smaller limits let it pass. */
const maxBatchEvents = 500
const maxBatchBytes = 512 * 1024

interface Entry {
  json: string
  bytes: number
}

export interface Batch {
  /** Resent unchanged: the service recognizes a repetition by its key. */
  body: string
  idempotencyKey: string
  events: number
  isUrgent: boolean
  /** Queues its events again, in front: the service has stored none of them. */
  putBack(): void
}

const isUrgent = ({ severity }: NewEvent): boolean => severity === 'critical' || severity === 'breach'

/** Events that wait to be sent, as JSON. Urgent ones go first, and are the last to be dropped when there is no room. */
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

  /** Events dropped since the last call. */
  takeDropped(): number {
    const dropped = this.#dropped
    this.#dropped = 0
    return dropped
  }

  /** Makes room by dropping the oldest event of lesser severity first. False when the event itself finds none. */
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

  /** The events that are sent next, together with `first`; undefined when there are none. */
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
