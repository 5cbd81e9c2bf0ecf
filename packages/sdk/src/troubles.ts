import type { FaultCode, MonitorError } from './faults.ts'
import type { Listeners } from './listeners.ts'

/** Notifies listeners of `error`, once per lasting fault until it is over. */
export class Troubles {
  readonly #listeners: Listeners
  readonly #open = new Map<string, FaultCode>()

  constructor(listeners: Listeners) {
    this.#listeners = listeners
  }

  notify(error: MonitorError): void {
    this.#listeners.emit('error', error)
  }

  /** `where`: the component that has the fault. */
  meet(where: string, error: MonitorError): void {
    if (this.#open.get(where) === error.code) return
    this.#open.set(where, error.code)
    this.notify(error)
  }

  over(where: string): void {
    this.#open.delete(where)
  }
}
