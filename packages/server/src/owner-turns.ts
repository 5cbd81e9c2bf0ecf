/**
 * Items that wait, in order of arrival by owner. Owners take turns: a hundred items of one owner delay another owner by
 * one. Two queues take turns by other rules: those of a commit by size (`FairQueue`), and pieces of work by how far they
 * are (`WorkLane`).
 */
export class OwnerTurns<Item> {
  /** The owner whose turn is next comes first. */
  readonly #lines = new Map<string, Item[]>()
  #size = 0

  get size(): number {
    return this.#size
  }

  waitingOf(owner: string): number {
    return this.#lines.get(owner)?.length ?? 0
  }

  add(owner: string, item: Item): void {
    const line = this.#lines.get(owner)
    if (line) line.push(item)
    else this.#lines.set(owner, [item])
    this.#size += 1
  }

  /** Takes the first item of the next owner whose turn is not skipped. */
  take(skip: (owner: string, item: Item) => boolean = () => false): Item | undefined {
    for (const [owner, line] of this.#lines) {
      if (skip(owner, line[0]!)) continue
      this.#lines.delete(owner)
      const item = line.shift()!
      if (line.length > 0) this.#lines.set(owner, line)
      this.#size -= 1
      return item
    }
    return undefined
  }
}
