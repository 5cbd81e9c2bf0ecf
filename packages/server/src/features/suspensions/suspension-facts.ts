import { hostname } from 'node:os'
import type { Deps } from '../../deps.ts'
import { type SeenFacts, seenStatement } from './suspension-statements.ts'

/** Shown with the facts that this process recorded. */
const processName = `${hostname()}:${process.pid}`
/** Rows per transaction: a kill waits at most some milliseconds for it. */
const batchRows = 250

interface Seen {
  version: number
  isStored: boolean
  isPublished: boolean
  isDelivered: boolean
}

interface Waiting {
  instanceId: string
  version: number
  facts: SeenFacts
}

/**
 * Records what this process observes of suspensions: that they are stored, published and delivered. Each fact is written
 * once, pending facts in one batch. A failed write is retried after a second; pending facts of a crashed process are lost.
 */
export class SuspensionFacts {
  readonly #deps: Deps
  /** Facts of the last suspension by instance; removed on resume. */
  readonly #seen = new Map<string, Seen>()
  #waiting = new Map<string, Waiting>()
  #writing: Promise<void> | undefined

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

  /** Call when the suspension was written to a stream or to a poll response. */
  noteDelivered(instanceId: string, version: number, requestedAt: number, by: 'stream' | 'poll'): void {
    const seen = this.#of(instanceId, version)
    if (!seen || seen.isDelivered) return
    seen.isDelivered = true
    const at = this.#observe('delivered', requestedAt)
    this.#note(instanceId, version, { delivered: { at, by } })
  }

  /** Writes all pending facts; resolves when none is left. Rejects when the database fails. */
  write(): Promise<void> {
    this.#writing ??= this.#writeAll().finally(() => {
      this.#writing = undefined
    })
    return this.#writing
  }

  #of(instanceId: string, version: number): Seen | undefined {
    const known = this.#seen.get(instanceId)
    if (known && known.version > version) return undefined
    if (known?.version === version) return known
    const seen = { version, isStored: false, isPublished: false, isDelivered: false }
    this.#seen.set(instanceId, seen)
    return seen
  }

  #observe(stage: 'stored' | 'published' | 'delivered', requestedAt: number): number {
    const now = this.#deps.clock.now()
    this.#deps.metrics.suspensionStageSeconds.observe({ stage }, Math.max(0, now - requestedAt) / 1_000)
    return now
  }

  #note(instanceId: string, version: number, facts: SeenFacts): void {
    const key = `${instanceId} ${version}`
    const waiting = this.#waiting.get(key)
    if (waiting) Object.assign(waiting.facts, facts)
    else this.#waiting.set(key, { instanceId, version, facts })
    if (this.#writing) return
    // Further facts of this turn of the event loop join the same transaction.
    this.#writing = new Promise<void>((resolve) => setImmediate(resolve))
      .then(() => this.#writeAll())
      .catch((fault) =>
        this.#deps.log.warn({ err: fault }, 'facts of suspensions not stored yet; retrying in a second'),
      )
      .finally(() => {
        this.#writing = undefined
      })
  }

  async #writeAll(): Promise<void> {
    const { database } = this.#deps
    while (this.#waiting.size > 0) {
      const taken = [...this.#waiting].slice(0, batchRows)
      for (const [key] of taken) this.#waiting.delete(key)
      // In the order of ids: two processes that lock the same rows in different orders could deadlock.
      const ordered = taken.map(([, waiting]) => waiting).toSorted((a, b) => (a.instanceId < b.instanceId ? -1 : 1))
      try {
        await database.batch([seenStatement(database, ordered, processName)], { isControl: true })
      } catch (fault) {
        for (const [key, waiting] of taken) {
          const newer = this.#waiting.get(key)
          this.#waiting.set(key, { ...waiting, facts: { ...newer?.facts, ...waiting.facts } })
        }
        throw fault
      }
    }
  }
}
