/** A counted event: its effective time and its seq. */
export type Mark = [time: number, seq: number]

/** Bytes of a mark outside of `Marks`. */
export const markBytes = 96
/** Bytes of `Marks` with one mark, with a few, and of so many more numbers: a list grows by half. */
const oneBytes = 112
const fewBytes = 256
const stepNumbers = 32
const stepBytes = 12 * stepNumbers

/**
 * Dropped numbers are only cut off the list once they are this many and half of it, because a window moves with each
 * event.
 */
const minCut = 32

/**
 * The marks of a window, oldest first. Stored as one list of alternating times and seqs: a million pairs would cost
 * four times as much.
 */
export class Marks {
  #list: number[]
  /** Index of the oldest mark. */
  #from = 0

  constructor(time: number, seq: number) {
    this.#list = [time, seq]
  }

  get length(): number {
    return (this.#list.length - this.#from) / 2
  }

  get bytes(): number {
    const { length } = this.#list
    return length <= 2 ? oneBytes : fewBytes + Math.floor(length / stepNumbers) * stepBytes
  }

  /** Seq of the oldest mark; undefined if there is none. */
  get oldestSeq(): number | undefined {
    return this.#list[this.#from + 1]
  }

  add(time: number, seq: number): void {
    this.#list.push(time, seq)
  }

  /** Drops marks before a time, and the oldest ones beyond `max`. */
  drop(before: number, max: number): void {
    const list = this.#list
    let from = Math.max(this.#from, list.length - 2 * max)
    while (from < list.length && list[from]! < before) from += 2
    this.#from = from
    if (from < minCut || 2 * from < list.length) return
    this.#list = list.slice(from)
    this.#from = 0
  }

  *[Symbol.iterator](): Generator<Mark, void> {
    for (let at = this.#from; at < this.#list.length; at += 2) yield [this.#list[at]!, this.#list[at + 1]!]
  }
}
