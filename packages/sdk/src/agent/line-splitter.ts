const newline = 0x0a

/** A line with its line end, or a part of a line that is too long to buffer. */
export interface Piece {
  bytes: Buffer
  kind: 'line' | 'part' | 'lastPart'
}

/** Splits a stream into lines. Lines longer than `maxBytes` are returned in parts, so that memory is bounded. */
export class LineSplitter {
  readonly #maxBytes: number
  #kept: Buffer[] = []
  #bytes = 0
  #isLong = false

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  push(chunk: Buffer): Piece[] {
    const pieces: Piece[] = []
    let start = 0
    while (start < chunk.length) {
      const end = chunk.indexOf(newline, start)
      const stop = end < 0 ? chunk.length : end + 1
      this.#kept.push(chunk.subarray(start, stop))
      this.#bytes += stop - start
      start = stop
      if (end >= 0) pieces.push(this.#take(this.#isLong || this.#bytes > this.#maxBytes ? 'lastPart' : 'line'))
      else if (this.#bytes > this.#maxBytes) pieces.push(this.#take('part'))
    }
    return pieces
  }

  /** Returns the text after the last line end. */
  rest(): Piece[] {
    return this.#bytes === 0 ? [] : [this.#take(this.#isLong ? 'lastPart' : 'line')]
  }

  #take(kind: Piece['kind']): Piece {
    const bytes = this.#kept.length === 1 ? this.#kept[0]! : Buffer.concat(this.#kept)
    this.#kept = []
    this.#bytes = 0
    this.#isLong = kind === 'part'
    return { bytes, kind }
  }
}
