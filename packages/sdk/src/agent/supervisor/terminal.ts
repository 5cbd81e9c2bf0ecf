import { spawnSync } from 'node:child_process'
import { isatty } from 'node:tty'

/** `stty` of a supervisor in the background would be stopped. */
const sttyMs = 1_000

/**
 * The terminal of the agent. A held agent may have switched off that Ctrl-C sends a signal, so the supervisor restores
 * the settings from before its start meanwhile.
 */
export class Terminal {
  readonly #descriptor = [0, 1, 2].find((each) => isatty(each))
  readonly #initial = this.#stty('-g')
  #ofAgent: string | undefined

  get exists(): boolean {
    return this.#descriptor !== undefined
  }

  take(): void {
    if (this.#ofAgent !== undefined) return
    this.#ofAgent = this.#stty('-g')
    this.restore()
  }

  giveBack(): void {
    if (this.#ofAgent) this.#stty(this.#ofAgent)
    this.#ofAgent = undefined
  }

  restore(): void {
    if (this.#initial) this.#stty(this.#initial)
  }

  #stty(settings: string): string | undefined {
    if (this.#descriptor === undefined) return undefined
    const { stdout } = spawnSync('stty', [settings], {
      stdio: [this.#descriptor, 'pipe', 'ignore'],
      encoding: 'utf8',
      timeout: sttyMs,
      killSignal: 'SIGKILL',
    })
    return stdout?.trim()
  }
}
