/** A member of a list in the order of last use. */
export interface Linked<Member> {
  older: Member | undefined
  newer: Member | undefined
}

/** Members in the order of their last use, a linked list. */
export class UseOrder<Member extends Linked<Member>> {
  #oldest: Member | undefined
  #newest: Member | undefined

  get oldest(): Member | undefined {
    return this.#oldest
  }

  /** Adds a member as the most recently used. */
  append(member: Member): void {
    member.older = this.#newest
    member.newer = undefined
    if (this.#newest) this.#newest.newer = member
    else this.#oldest = member
    this.#newest = member
  }

  /** Makes a member the most recently used. */
  use(member: Member): void {
    if (member === this.#newest) return
    this.unlink(member)
    this.append(member)
  }

  unlink({ older, newer }: Member): void {
    if (older) older.newer = newer
    else this.#oldest = newer
    if (newer) newer.older = older
    else this.#newest = older
  }

  /** Iterates from the least recently used. */
  *[Symbol.iterator](): Generator<Member, void> {
    for (let member = this.#oldest; member; member = member.newer) yield member
  }
}

/** A member that is found by its key. */
export interface Keyed<Member> extends Linked<Member> {
  readonly key: string
}

/**
 * Members by key and in the order of their last use. A Map would need deleting and adding a key to move it, which leaves
 * holes that every access to the first key walks over, and copies the map when there are many.
 */
export class ByUse<Member extends Keyed<Member>> {
  readonly #members = new Map<string, Member>()
  readonly #order = new UseOrder<Member>()

  get size(): number {
    return this.#members.size
  }

  get oldest(): Member | undefined {
    return this.#order.oldest
  }

  get(key: string): Member | undefined {
    return this.#members.get(key)
  }

  /** Adds a member as the most recently used. */
  add(member: Member): void {
    this.#members.set(member.key, member)
    this.#order.append(member)
  }

  /** Makes a member the most recently used. */
  use(member: Member): void {
    this.#order.use(member)
  }

  delete(member: Member): void {
    this.#members.delete(member.key)
    this.#order.unlink(member)
  }

  /** Iterates from the least recently used. */
  [Symbol.iterator](): Generator<Member, void> {
    return this.#order[Symbol.iterator]()
  }
}
