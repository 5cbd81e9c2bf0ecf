/**
 * Bytes of memory that keys share. One key has at most half of what the others leave, so that one agent cannot take all
 * of it.
 */
export class SharedRoom {
  readonly #bytes: number
  readonly #taken = new Map<string, number>()
  #takenInAll = 0

  constructor(bytes: number) {
    this.#bytes = bytes
  }

  /** Returns false, and takes nothing, if there is no room. */
  take(bytes: number, keyId: string): boolean {
    const own = this.#taken.get(keyId) ?? 0
    const leftByOthers = this.#bytes - (this.#takenInAll - own)
    if (own + bytes > leftByOthers / 2) return false
    this.#taken.set(keyId, own + bytes)
    this.#takenInAll += bytes
    return true
  }

  give(bytes: number, keyId: string): void {
    const left = (this.#taken.get(keyId) ?? 0) - bytes
    if (left > 0) this.#taken.set(keyId, left)
    else this.#taken.delete(keyId)
    this.#takenInAll -= bytes
  }
}
