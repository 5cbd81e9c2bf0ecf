import { type Client, type ControlChange, ControlStreamMessage, type StreamedRow } from '@wardline/contract'
import { hasShape } from '../service/reply-shape.ts'
import { newestEvent } from './event-pages.ts'
import { controlPages } from './timeline.ts'

/** Merges kills and resumes into a stream of events: each once, and sorted by time among replayed events. */
export class TailControl {
  readonly #call: Client
  /** Seq of the last change returned. */
  #seq: number
  #waiting: ControlChange[] = []
  /** Seq of the newest event when the pending changes were read. Events up to it may still be replayed. */
  #head = 0

  /** Starts after the change with this seq. */
  constructor(call: Client, seq: number) {
    this.#call = call
    this.#seq = seq
  }

  /** Reads missed changes. The stream does not replay control entries, so this runs after each connect. */
  async catchUp(): Promise<void> {
    const missed: ControlChange[] = []
    for await (const { changes } of controlPages(this.#call, { after: String(this.#seq) })) missed.push(...changes)
    this.#waiting = missed.reverse()
    this.#head = missed.length > 0 ? ((await newestEvent(this.#call, {}))?.seq ?? 0) : 0
  }

  /** Processes a message of the stream; ignores repeated changes. */
  take(message: unknown): void {
    if (!hasShape(ControlStreamMessage, message)) return
    const { data } = message as { data: ControlChange }
    if (data.seq > (this.#waiting.at(-1)?.seq ?? this.#seq)) this.#waiting.push(data)
  }

  /** Returns the pending changes that are older than the next event. */
  *before({ seq, created_at }: StreamedRow): Generator<ControlChange> {
    // An event published by another program has an arbitrary time.
    if (seq === null) return
    while (this.#waiting[0] && this.#waiting[0].at <= created_at) yield this.#next()
  }

  /** Returns all pending changes once no earlier event can arrive. `eventSeq` is the last event received. */
  *due(eventSeq: number | undefined): Generator<ControlChange> {
    if (eventSeq !== undefined && eventSeq < this.#head) return
    while (this.#waiting.length > 0) yield this.#next()
  }

  #next(): ControlChange {
    const change = this.#waiting.shift()!
    this.#seq = change.seq
    return change
  }
}
