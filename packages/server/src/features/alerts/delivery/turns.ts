/** Alerts that arrive within this time are planned together: each turn writes, and what agents send must not wait for it. */
const betweenTurnsMs = 50

/** Work in turns that never overlap each other, however many ask for one. */
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

  /** Takes a turn in a moment. */
  wake(): void {
    if (this.#isClosing || this.#timer) return
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      this.run().catch(this.#onFault)
    }, betweenTurnsMs)
  }

  /** Takes a turn now, or in a moment when one is under way; resolves with the end of that one. */
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
