import type { ControlMessage } from '@wardline/contract'
import type { Bus, EventListener } from './bus.ts'
import type { Notice } from './notice.ts'

/**
 * Creates a bus within one process, which calls listeners immediately, in publishing order. `alone`: no other process
 * uses the database, so no change can be missed.
 */
export function createMemoryBus({ alone }: { alone: boolean }): Bus {
  const eventListeners: EventListener[] = []
  const controlListeners: ((message: ControlMessage) => void)[] = []
  const noticeListeners: ((notice: Notice) => void)[] = []
  return {
    publishEvents: (rows) => {
      for (const listener of eventListeners) listener(rows)
    },
    publishControl: (message) => {
      for (const listener of controlListeners) listener(message)
    },
    publishNotice: (notice) => {
      for (const listener of noticeListeners) listener(notice)
    },
    onEvents: (listener) => void eventListeners.push(listener),
    onControl: (listener) => void controlListeners.push(listener),
    onNotice: (listener) => void noticeListeners.push(listener),
    // No other process publishes here, so nothing is ever missed.
    onOutsideEvents: () => {},
    onReconnect: () => {},
    state: 'in-process',
    receivesAll: alone,
    close: async () => {},
  }
}
