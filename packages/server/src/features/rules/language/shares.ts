import { type Linked, UseOrder } from './by-use.ts'

/** Owners by the size of what they hold: finding the largest costs the same however many there are. */
export class Shares<Owner extends Linked<Owner>> {
  readonly #bySize = new Map<number, UseOrder<Owner>>()
  #max = 0

  /** Of several of the same size, the one that has had it longest. */
  get largest(): Owner | undefined {
    return this.#bySize.get(this.#max)?.oldest
  }

  /** Call when an owner changes its size; 0: it holds nothing. */
  move(owner: Owner, from: number, to: number): void {
    const left = this.#bySize.get(from)
    left?.unlink(owner)
    if (left?.oldest === undefined) this.#bySize.delete(from)
    if (to > 0) {
      const entered = this.#bySize.get(to) ?? new UseOrder<Owner>()
      entered.append(owner)
      this.#bySize.set(to, entered)
    }
    this.#max = Math.max(this.#max, to)
    // Sizes change by a few at a time, so the next largest is near.
    while (this.#max > 0 && !this.#bySize.has(this.#max)) this.#max -= 1
  }
}
