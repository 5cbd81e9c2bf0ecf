import { hostname } from 'node:os'
import { WriteBehind } from '../../db/write-behind.ts'
import type { Deps } from '../../deps.ts'
import { type DeliveredBy, type SeenFacts, seenStatement } from './suspension-statements.ts'

/** Shown with the facts that this process recorded. */
const processName = `${hostname()}:${process.pid}`

interface Seen {
  version: number
  isStored: boolean
  isPublished: boolean
  delivered: DeliveredBy | undefined
}

interface Waiting {
  instanceId: string
  version: number
  facts: SeenFacts
}

/**
 * Records what this process observes of suspensions: that they are stored, published and delivered. Each fact is written
 * once, at once, and after a second if that fails.
 */
export class SuspensionFacts {
  readonly #deps: Deps
  /** Facts of the last suspension by instance; removed on resume. */
  readonly #seen = new Map<string, Seen>()
  readonly #waiting = new WriteBehind<Waiting>({
    merge: (one, other) => ({ ...one, facts: { ...one.facts, ...other.facts } }),
    write: (waiting) => this.#store(waiting.map(([, facts]) => facts)),
  })
  #isWritingSoon = false

  constructor(deps: Deps) {
    this.#deps = deps
    deps.bus.onControl(({ instance_id, action, version }) => {
      const known = this.#seen.get(instance_id)
      if (action === 'resume' && known && known.version < version) this.#seen.delete(instance_id)
    })
  }

  /** Call after the commit of a suspension. `requestedAt`: epoch milliseconds. */
  noteStored(instanceId: string, version: number, requestedAt: number): void {
    const seen = this.#of(instanceId, version)
    if (!seen || seen.isStored) return
    seen.isStored = true
    const storedAt = this.#observe('stored', requestedAt)
    this.#note(instanceId, version, { storedAt })
  }

  notePublished(instanceId: string, version: number, requestedAt: number): void {
    const seen = this.#of(instanceId, version)
    if (!seen || seen.isPublished) return
    seen.isPublished = true
    const publishedAt = this.#observe('published', requestedAt)
    this.#note(instanceId, version, { publishedAt })
  }

  /** Call when the suspension was written to a stream or to an answer. */
  noteDelivered(instanceId: string, version: number, requestedAt: number, by: DeliveredBy): void {
    const seen = this.#of(instanceId, version)
    // A client may ignore the header of an answer, so a stream or poll still counts after it.
    if (!seen || seen.delivered === by || (seen.delivered !== undefined && seen.delivered !== 'answer')) return
    const at = seen.delivered === undefined ? this.#observe('delivered', requestedAt) : this.#deps.clock.now()
    seen.delivered = by
    this.#note(instanceId, version, { delivered: { at, by } })
  }

  /** Writes all pending facts. Rejects when the database fails. */
  write(): Promise<void> {
    return this.#waiting.write()
  }

  #of(instanceId: string, version: number): Seen | undefined {
    const known = this.#seen.get(instanceId)
    if (known && known.version > version) return undefined
    if (known?.version === version) return known
    const seen = { version, isStored: false, isPublished: false, delivered: undefined }
    this.#seen.set(instanceId, seen)
    return seen
  }

  #observe(stage: 'stored' | 'published' | 'delivered', requestedAt: number): number {
    const now = this.#deps.clock.now()
    this.#deps.metrics.suspensionStageSeconds.observe({ stage }, Math.max(0, now - requestedAt) / 1_000)
    return now
  }

  #note(instanceId: string, version: number, facts: SeenFacts): void {
    this.#waiting.note(`${instanceId} ${version}`, { instanceId, version, facts })
    if (this.#isWritingSoon) return
    this.#isWritingSoon = true
    // Further facts of this turn of the event loop join the same transaction.
    setImmediate(() => {
      this.#isWritingSoon = false
      this.write().catch((fault) =>
        this.#deps.log.warn({ err: fault }, 'facts of suspensions not stored yet; retrying in a second'),
      )
    })
  }

  async #store(facts: readonly Waiting[]): Promise<void> {
    const { database } = this.#deps
    await database.batch([seenStatement(database, facts, processName)], { isControl: true })
  }
}
