import { SharedRun } from '../shared-run.ts'

/** Rows per transaction: a kill waits at most some milliseconds for it. */
const batchRows = 500

interface WriteBehindOptions<Value> {
  /** Joins two values of a key. */
  merge(older: Value, newer: Value): Value
  /** Stores values in the order of their keys: processes that lock the same rows in different orders could deadlock. */
  write(values: [key: string, value: Value][]): Promise<void>
  /** Maximum keys in memory; further ones are not noted. Default: no limit beyond that of the keys. */
  max?: number
}

/**
 * Values by key that are noted in memory and written together, for what may be lost when the process crashes. What a
 * failed write held is written with the next one.
 */
export class WriteBehind<Value> {
  readonly #options: WriteBehindOptions<Value>
  readonly #waiting = new Map<string, Value>()
  readonly #run = new SharedRun(() => this.#writeAll())

  constructor(options: WriteBehindOptions<Value>) {
    this.#options = options
  }

  note(key: string, value: Value): void {
    const { merge, max = Infinity } = this.#options
    const known = this.#waiting.get(key)
    if (known !== undefined) this.#waiting.set(key, merge(known, value))
    else if (this.#waiting.size < max) this.#waiting.set(key, value)
  }

  /** Resolves once everything noted before the call is stored. Rejects when the database fails. */
  write(): Promise<void> {
    return this.#run.get()
  }

  async #writeAll(): Promise<void> {
    const { merge, write } = this.#options
    const keys = [...this.#waiting.keys()].sort()
    for (let first = 0; first < keys.length; first += batchRows) {
      const batch = keys
        .slice(first, first + batchRows)
        .map((key): [string, Value] => [key, this.#waiting.get(key) as Value])
      for (const [key] of batch) this.#waiting.delete(key)
      try {
        await write(batch)
      } catch (fault) {
        for (const [key, value] of batch) {
          const newer = this.#waiting.get(key)
          this.#waiting.set(key, newer === undefined ? value : merge(value, newer))
        }
        throw fault
      }
    }
  }
}
