/** A member of a list by use, which links its members. */
export interface Linked<Member> {
  readonly key: string
  older: Member | undefined
  newer: Member | undefined
}

/**
 * Members by key, and in the order of their last use. A Map that moves a key by deleting and adding it does the same, but
 * leaves holes that each look at its first key walks over, and copies itself whenever they are many.
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

  /** Adds a member as the newest. */
  add(member: Member): void {
    this.#members.set(member.key, member)
    this.#append(member)
  }

  /** Makes a member the newest. */
  use(member: Member): void {
    if (member === this.#newest) return
    this.#unlink(member)
    this.#append(member)
  }

  delete(member: Member): void {
    this.#members.delete(member.key)
    this.#unlink(member)
  }

  /** The oldest first. */
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
