import { type Client, type ControlChange, ControlStreamMessage, type StreamedRow } from '@wardline/contract'
import { hasShape } from '../service/reply-shape.ts'
import { newestEvent } from './event-pages.ts'
import { controlPages } from './timeline.ts'

/** Kills and resumes for a reader of the stream: each once, and among repeated events in its place by time. */
export class TailControl {
  readonly #call: Client
  /** The last one that was shown. */
  #seq: number
  #waiting: ControlChange[] = []
  /** The newest event when those that wait were read: up to it, events may still be repeated. */
  #head = 0

  /** Begins after the change of this seq. */
  constructor(call: Client, seq: number) {
    this.#call = call
    this.#seq = seq
  }

  /** Reads what was missed. The stream repeats no control entries, so this follows each connection. */
  async catchUp(): Promise<void> {
    const missed: ControlChange[] = []
    for await (const { changes } of controlPages(this.#call, { after: String(this.#seq) })) missed.push(...changes)
    this.#waiting = missed.reverse()
    this.#head = missed.length > 0 ? ((await newestEvent(this.#call, {}))?.seq ?? 0) : 0
  }

  /** Takes a message of the stream; what came before is dropped. */
  take(message: unknown): void {
    if (!hasShape(ControlStreamMessage, message)) return
    const { data } = message as { data: ControlChange }
    if (data.seq > (this.#waiting.at(-1)?.seq ?? this.#seq)) this.#waiting.push(data)
  }

  /** Control entries older than the event that is shown next. */
  *before({ seq, created_at }: StreamedRow): Generator<ControlChange> {
    // What another program published has any time that it likes.
    if (seq === null) return
    while (this.#waiting[0] && this.#waiting[0].at <= created_at) yield this.#next()
  }

  /** All that wait, once no event from before them can come any more. `eventSeq`: the last event that came. */
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
