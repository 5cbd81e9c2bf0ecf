import type { ControlMessage } from '@wardline/contract'
import type { Bus, EventListener } from './bus.ts'

/**
 * The bus within one process: listeners are called at once, in the order of publishing. `alone` tells that no other
 * process uses the database, whose changes it could not hear.
 */
export function createMemoryBus({ alone }: { alone: boolean }): Bus {
  const eventListeners: EventListener[] = []
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
    // Nobody else can publish here, and nothing is ever missed.
    onOutsideEvents: () => {},
    onReconnect: () => {},
    state: 'in-process',
    receivesAll: alone,
    close: async () => {},
  }
}
