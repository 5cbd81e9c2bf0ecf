import type { StreamedRow } from '@wardline/contract'

/** Position in the order of events: after this one. */
export type Place = Pick<StreamedRow, 'id' | 'created_at'> & { seq: number }

/** Before the first event. */
export const beginning: Place = { seq: 0, id: '', created_at: '' }

interface Taken {
  /** False for a repeated row. */
  isNew: boolean
  /** Missing events between the previous one and this one. */
  skipped: number
  /** The numbering restarted: the service has another database. */
  isRestarted: boolean
}

/** Remembered ids that distinguish repeated rows from another database. A reconnect repeats only the latest rows. */
const remembered = 1_000

/** Tracks the position of a stream reader: detects repeated and missing events and where to resume. */
export class StreamCursor {
  #last: Place | undefined
  readonly #ids = new Map<number, string>()

  /** If `place` is undefined, the first event determines the position. */
  constructor(place: Place | undefined) {
    if (place) this.#advance(place)
  }

  /** Last seq, for Last-Event-ID; undefined before the first event. */
  get seq(): number | undefined {
    return this.#last?.seq
  }

  take({ seq, id, created_at }: StreamedRow): Taken {
    // Events published by another program are not stored: they have no seq and are sent once.
    if (seq === null) return { isNew: true, skipped: 0, isRestarted: false }
    const last = this.#last
    const place = { seq, id, created_at }
    if (last === undefined || seq > last.seq) {
      this.#advance(place)
      return { isNew: true, skipped: last === undefined ? 0 : seq - last.seq - 1, isRestarted: false }
    }
    // A process that lags behind repeats old rows. Another database sends new rows with a lower seq.
    const isRepeated = this.#ids.has(seq) ? this.#ids.get(seq) === id : created_at <= last.created_at
    if (isRepeated) return { isNew: false, skipped: 0, isRestarted: false }
    this.#ids.clear()
    this.#advance(place)
    return { isNew: true, skipped: 0, isRestarted: true }
  }

  /** The service resumes after a later row. Returns the number of skipped rows. */
  skipTo(seq: number): number {
    const last = this.#last ?? beginning
    if (seq <= last.seq) return 0
    this.#last = { ...last, seq }
    return seq - last.seq
  }

  #advance(place: Place): void {
    this.#last = place
    this.#ids.set(place.seq, place.id)
    if (this.#ids.size <= remembered) return
    const [oldest] = this.#ids.keys()
    this.#ids.delete(oldest!)
  }
}
