import { MonitorError } from './faults.ts'
import type { MonitorEvents } from './monitor.ts'

type Listener = (detail: never) => unknown

/** Listeners of a monitor. One that throws or rejects affects neither the others nor the agent. */
export class Listeners {
  readonly #byEvent = new Map<keyof MonitorEvents, Set<Listener>>()

  on<Name extends keyof MonitorEvents>(event: Name, listener: (detail: MonitorEvents[Name]) => unknown): () => void {
    if (typeof listener !== 'function') throw new TypeError(`The listener of "${event}" must be a function.`)
    const listeners = this.#byEvent.get(event) ?? new Set()
    this.#byEvent.set(event, listeners.add(listener))
    return () => void listeners.delete(listener)
  }

  emit<Name extends keyof MonitorEvents>(event: Name, detail: MonitorEvents[Name]): void {
    for (const listener of [...(this.#byEvent.get(event) ?? [])]) {
      const failed = (cause: unknown) => {
        if (event === 'error') return
        this.emit('error', new MonitorError('listener', `A listener of "${event}" failed. Fix it.`, cause))
      }
      try {
        const result = listener(detail as never)
        if (result instanceof Promise) result.catch(failed)
      } catch (cause) {
        failed(cause)
      }
    }
  }
}
