import type { Deps } from '../../deps.ts'
import { republishControl } from './kill-switch.ts'
import type { SuspensionFacts } from './suspension-facts.ts'

/** Looks into the database for kills and resumes that were not heard of: each second, and when the bus is back. */
export class ControlRelay {
  readonly #deps: Deps
  readonly #facts: Pick<SuspensionFacts, 'notePublished'>
  /** Up to when everything was looked at. */
  #since: number

  constructor(deps: Deps, { suspensionFacts }: { suspensionFacts: Pick<SuspensionFacts, 'notePublished'> }) {
    this.#deps = deps
    this.#facts = suspensionFacts
    this.#since = deps.clock.now()
    deps.bus.onReconnect((missedSince) => {
      // What was published meanwhile did not reach those who listen on the channel itself.
      this.#since = Math.min(this.#since, missedSince)
      this.run().catch((fault) =>
        deps.log.warn({ err: fault }, 'kills and resumes could not be read; retrying in a second'),
      )
    })
  }

  async run(): Promise<void> {
    const now = this.#deps.clock.now()
    // The clock may have been set back.
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
