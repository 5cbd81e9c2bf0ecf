import type { FaultCode, MonitorError } from './faults.ts'
import type { Listeners } from './listeners.ts'

/** Notifies listeners of `error`. A fault that lasts is reported once until it is cleared. */
export class ActiveFaults {
  readonly #listeners: Listeners
  readonly #open = new Map<string, FaultCode>()

  constructor(listeners: Listeners) {
    this.#listeners = listeners
  }

  notify(error: MonitorError): void {
    this.#listeners.emit('error', error)
  }

  /** `where` names the part with the fault; `clear` takes the same name. */
  raise(where: string, error: MonitorError): void {
    if (this.#open.get(where) === error.code) return
    this.#open.set(where, error.code)
    this.notify(error)
  }

  clear(where: string): void {
    this.#open.delete(where)
  }
}
