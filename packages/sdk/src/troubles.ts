import type { FaultCode, MonitorError } from './faults.ts'
import type { Listeners } from './listeners.ts'

/** Notifies listeners of `error`. A lasting fault is reported once until it is over. */
export class Troubles {
  readonly #listeners: Listeners
  readonly #open = new Map<string, FaultCode>()

  constructor(listeners: Listeners) {
    this.#listeners = listeners
  }

  notify(error: MonitorError): void {
    this.#listeners.emit('error', error)
  }

  /** `where` names the part with the fault; `over` takes the same name. */
  meet(where: string, error: MonitorError): void {
    if (this.#open.get(where) === error.code) return
    this.#open.set(where, error.code)
    this.notify(error)
  }

  over(where: string): void {
    this.#open.delete(where)
  }
}
