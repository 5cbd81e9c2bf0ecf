import type { Deps } from '../../deps.ts'
import type { SuspensionFacts } from '../suspensions/suspension-facts.ts'
import { republishControl } from './kill-switch.ts'

/** Reads kills and resumes from the database whose messages were missed: each second, and when the bus reconnects. */
export class ControlRelay {
  readonly #deps: Deps
  readonly #facts: Pick<SuspensionFacts, 'notePublished'>
  /** All changes before this time were read. */
  #since: number

  constructor(deps: Deps, { suspensionFacts }: { suspensionFacts: Pick<SuspensionFacts, 'notePublished'> }) {
    this.#deps = deps
    this.#facts = suspensionFacts
    this.#since = deps.clock.now()
    deps.bus.onReconnect((missedSince) => {
      // Messages published during the interruption did not reach the subscribers of the channel.
      this.#since = Math.min(this.#since, missedSince)
      this.run().catch((fault) =>
        deps.log.warn({ err: fault }, 'kills and resumes could not be read; retrying in a second'),
      )
    })
  }

  async run(): Promise<void> {
    const now = this.#deps.clock.now()
    // The clock may have been set back since the last run.
    const since = Math.min(this.#since, now)
    this.#since = now
    try {
      await republishControl(this.#deps, this.#facts, since)
    } catch (fault) {
      this.#since = Math.min(this.#since, since)
      throw fault
    }
  }
}
