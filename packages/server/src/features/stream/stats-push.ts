import type { Deps } from '../../deps.ts'
import { frame } from '../../http/sse.ts'
import { severityCounts } from '../events/counts.ts'

/** Minimum interval between pushes of severity counts, however many events arrive. */
const everyMs = 250

/** Sends severity counts after events. One read serves all events that arrived in the meantime. */
export class StatsPush {
  readonly #deps: Deps
  readonly #send: (bytes: Buffer) => void
  #timer: NodeJS.Timeout | undefined
  #isWanted = false

  constructor(deps: Deps, send: (bytes: Buffer) => void) {
    this.#deps = deps
    this.#send = send
  }

  want(): void {
    this.#isWanted = true
    if (this.#timer) return
    void this.#push()
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      if (this.#isWanted) this.want()
    }, everyMs)
  }

  close(): void {
    clearTimeout(this.#timer)
  }

  async #push(): Promise<void> {
    this.#isWanted = false
    try {
      const counts = await severityCounts(this.#deps.database.db, this.#deps.clock.now())
      this.#send(Buffer.from(frame(`{"type":"stats","data":${JSON.stringify(counts)}}`)))
    } catch (fault) {
      this.#deps.log.warn({ err: fault }, 'severity counts could not be read for the stream')
    }
  }
}
