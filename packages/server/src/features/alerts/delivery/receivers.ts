import type { Deps } from '../../../deps.ts'
import { type ChannelProgress, type ReceiverState, readChannelProgress } from '../routing/queries.ts'
import type { MessageAttempt } from './queries.ts'
import { downAfter, pauseAfter } from './retry-schedule.ts'

const unknown = { planned: { own: 0, reported: 0 }, failures: 0, resumeAt: null } as const

/** Health of the receivers, as of the last read and updated by attempts since. */
export class Receivers {
  readonly #deps: Pick<Deps, 'database' | 'clock'>
  /** Enabled channels. Entries are replaced, never changed. */
  #progress: ReadonlyMap<string, ChannelProgress> = new Map()
  /** For each pending read: channels that it may return in their state before an attempt. */
  readonly #outdated = new Set<Set<string>>()

  constructor(deps: Pick<Deps, 'database' | 'clock'>) {
    this.#deps = deps
  }

  /** Reads all channels. Keeps results of attempts that ended during the read, which may be older. */
  async read(): Promise<ReadonlyMap<string, ChannelProgress>> {
    const outdated = new Set<string>()
    this.#outdated.add(outdated)
    try {
      const read = await readChannelProgress(this.#deps.database.db)
      const before = this.#progress
      this.#progress = new Map(
        read.map((row) => {
          const known = outdated.has(row.id) && before.get(row.id)
          return [row.id, known ? { ...row, failures: known.failures, resumeAt: known.resumeAt } : row]
        }),
      )
      return this.#progress
    } finally {
      this.#outdated.delete(outdated)
    }
  }

  /** Updates channels until the next read. A channel that was never read has no messages yet. */
  learn(states: readonly ReceiverState[]): void {
    const next = new Map(this.#progress)
    for (const { channelId: id, failures, resumeAt } of states) {
      const known = next.get(id) ?? { id, ...unknown }
      next.set(id, { ...known, failures: failures === null ? 0 : known.failures + failures, resumeAt })
      for (const outdated of this.#outdated) outdated.add(id)
    }
    this.#progress = next
  }

  #of = (id: string) => this.#progress.get(id) ?? unknown

  isPaused(id: string): boolean {
    const { resumeAt } = this.#of(id)
    return resumeAt !== null && resumeAt > this.#deps.clock.now()
  }

  isDown(id: string): boolean {
    return this.#of(id).failures >= downAfter
  }

  /** Returns the state of a channel after these attempts. */
  stateAfter(channelId: string, attempts: readonly MessageAttempt[]): ReceiverState {
    const { now } = attempts.at(-1)!
    const error = attempts.findLast(({ verdict }) => verdict.error !== null)?.verdict.error ?? null
    if (attempts.some(({ verdict }) => verdict.delivered)) {
      return { channelId, failures: null, error, now, resumeAt: null }
    }
    const asked = Math.max(0, ...attempts.map(({ verdict }) => verdict.retryAfterSeconds ?? 0)) * 1_000
    const wait = Math.max(asked, pauseAfter(this.#of(channelId).failures + attempts.length))
    return { channelId, failures: attempts.length, error, now, resumeAt: wait > 0 ? now + wait : null }
  }
}
