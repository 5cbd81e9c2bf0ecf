/** Of the room, for keys that hold little: a few keys with much can take the rest. */
const kept = 1 / 4
/** Of the room, what is little: 16 such keys find a place in what is kept for them. */
const little = 1 / 64

/** Who takes room. `instanceId`: the agent, if its key is for several; they share what the key may have. */
export interface RoomOwner {
  keyId: string
  instanceId?: string | undefined
}

/**
 * Room, of bytes or of calls, that keys share. One key has at most half of what the others leave, so that one agent cannot
 * take all of it, and an agent of a key for several at most half of what those leave to it. The last quarter is for keys
 * that hold little, so that several keys together cannot take all of it either.
 */
export class SharedRoom {
  readonly #size: number
  readonly #taken = new Map<string, number>()
  #takenInAll = 0

  constructor(size: number) {
    this.#size = size
  }

  /** Returns false, and takes nothing, if there is no room. */
  take(amount: number, owner: RoomOwner): boolean {
    const [ofKey, ofAgent] = placesOf(owner)
    const own = this.#takenBy(ofKey!)
    const max = (this.#size - (this.#takenInAll - own)) / 2
    if (own + amount > max) return false
    const hasLittle = own + amount <= this.#size * little
    if (!hasLittle && this.#takenInAll + amount > this.#size * (1 - kept)) return false
    if (ofAgent !== undefined) {
      const ownOfAgent = this.#takenBy(ofAgent)
      if (ownOfAgent + amount > (max - (own - ownOfAgent)) / 2) return false
    }
    this.#change(owner, amount)
    return true
  }

  give(amount: number, owner: RoomOwner): void {
    this.#change(owner, -amount)
  }

  #takenBy(place: string): number {
    return this.#taken.get(place) ?? 0
  }

  #change(owner: RoomOwner, amount: number): void {
    this.#takenInAll += amount
    for (const place of placesOf(owner)) {
      const left = this.#takenBy(place) + amount
      if (left > 0) this.#taken.set(place, left)
      else this.#taken.delete(place)
    }
  }
}

const placesOf = ({ keyId, instanceId }: RoomOwner): string[] =>
  instanceId === undefined ? [keyId] : [keyId, `${keyId} ${instanceId}`]
