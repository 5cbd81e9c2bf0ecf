/** Alerts that arrive within this time are planned together, because each turn writes to the database. */
const betweenTurnsMs = 50

/** Runs work in turns that never overlap; several requests share a turn. */
export class Turns {
  readonly #work: () => Promise<void>
  readonly #onFault: (fault: unknown) => void
  #isClosing = false
  #turn: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(work: () => Promise<void>, onFault: (fault: unknown) => void) {
    this.#work = work
    this.#onFault = onFault
  }

  /** Schedules a turn. */
  wake(): void {
    if (this.#isClosing || this.#timer) return
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      this.run().catch(this.#onFault)
    }, betweenTurnsMs)
  }

  /** Runs a turn now, or after the current one; resolves when it has ended. */
  async run(): Promise<void> {
    if (this.#turn) {
      this.wake()
      return this.#turn
    }
    this.#turn = this.#work().finally(() => {
      this.#turn = undefined
    })
    return this.#turn
  }

  async whenIdle(): Promise<void> {
    await this.#turn
  }

  close(): void {
    this.#isClosing = true
    clearTimeout(this.#timer)
  }
}
