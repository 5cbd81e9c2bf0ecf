import type { ControlMessage } from '@wardline/contract'
import type { StoredEvent } from '../db/schema.ts'
import type { Bus } from './bus.ts'

/** The bus of a single process: listeners are called at once, in the order of publishing. */
export function createMemoryBus(): Bus {
  const eventListeners: ((rows: readonly StoredEvent[]) => void)[] = []
  const controlListeners: ((message: ControlMessage) => void)[] = []
  return {
    publishEvents: (rows) => {
      for (const listener of eventListeners) listener(rows)
    },
    publishControl: (message) => {
      for (const listener of controlListeners) listener(message)
    },
    onEvents: (listener) => void eventListeners.push(listener),
    onControl: (listener) => void controlListeners.push(listener),
  }
}
