import type { StreamedRow } from '@wardline/contract'

/** A place in the order of events: after this one. */
export type Place = Pick<StreamedRow, 'id' | 'created_at'> & { seq: number }

/** Before the first event. */
export const beginning: Place = { seq: 0, id: '', created_at: '' }

interface Taken {
  /** False for a row that came before. */
  isNew: boolean
  /** Events between the last one and this that never came. */
  skipped: number
  /** The numbering restarted: another database answers now. */
  isRestarted: boolean
}

/** Rows to distinguish a repetition from another database; after a reconnection only the latest can repeat. */
const remembered = 1_000

/** Where a reader of the stream stands: what it has, what it missed, where it goes on. */
export class StreamCursor {
  #last: Place | undefined
  readonly #ids = new Map<number, string>()

  /** `place` undefined: it is not known until the first event comes. */
  constructor(place: Place | undefined) {
    if (place) this.#advance(place)
  }

  /** The last seq that was read, for Last-Event-ID; undefined while there is none. */
  get seq(): number | undefined {
    return this.#last?.seq
  }

  take({ seq, id, created_at }: StreamedRow): Taken {
    // What another program published is not stored: it has no place in the order, and comes once.
    if (seq === null) return { isNew: true, skipped: 0, isRestarted: false }
    const last = this.#last
    const place = { seq, id, created_at }
    if (last === undefined || seq > last.seq) {
      this.#advance(place)
      return { isNew: true, skipped: last === undefined ? 0 : seq - last.seq - 1, isRestarted: false }
    }
    // A process that lags behind repeats rows, which are old; another database counts from lower down with new ones.
    const isRepeated = this.#ids.has(seq) ? this.#ids.get(seq) === id : created_at <= last.created_at
    if (isRepeated) return { isNew: false, skipped: 0, isRestarted: false }
    this.#ids.clear()
    this.#advance(place)
    return { isNew: true, skipped: 0, isRestarted: true }
  }

  /** The service goes on after a later row; returns how many it leaves out. */
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
