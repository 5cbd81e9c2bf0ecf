/** A member of `ByUse`, a linked list. */
export interface Linked<Member> {
  readonly key: string
  older: Member | undefined
  newer: Member | undefined
}

/**
 * Members by key and in the order of their last use. A Map would need deleting and adding a key to move it, which leaves
 * holes that every access to the first key walks over, and copies the map when there are many.
 */
export class ByUse<Member extends Linked<Member>> {
  readonly #members = new Map<string, Member>()
  #oldest: Member | undefined
  #newest: Member | undefined

  get size(): number {
    return this.#members.size
  }

  get oldest(): Member | undefined {
    return this.#oldest
  }

  get(key: string): Member | undefined {
    return this.#members.get(key)
  }

  /** Adds a member as the most recently used. */
  add(member: Member): void {
    this.#members.set(member.key, member)
    this.#append(member)
  }

  /** Makes a member the most recently used. */
  use(member: Member): void {
    if (member === this.#newest) return
    this.#unlink(member)
    this.#append(member)
  }

  delete(member: Member): void {
    this.#members.delete(member.key)
    this.#unlink(member)
  }

  /** Iterates from the least recently used. */
  *[Symbol.iterator](): Generator<Member, void> {
    for (let member = this.#oldest; member; member = member.newer) yield member
  }

  #append(member: Member): void {
    member.older = this.#newest
    member.newer = undefined
    if (this.#newest) this.#newest.newer = member
    else this.#oldest = member
    this.#newest = member
  }

  #unlink({ older, newer }: Member): void {
    if (older) older.newer = newer
    else this.#oldest = newer
    if (newer) newer.older = older
    else this.#newest = older
  }
}
