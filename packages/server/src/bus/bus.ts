import type { ControlMessage } from '@wardline/contract'
import type { StoredEvent } from '../db/schema.ts'

/** Carries what was committed to every process. It may lose, double or reorder: the database is the truth. */
export interface Bus {
  /** Never waits and never fails. */
  publishEvents(rows: readonly StoredEvent[]): void
  publishControl(message: ControlMessage): void
  onEvents(listener: (rows: readonly StoredEvent[]) => void): void
  onControl(listener: (message: ControlMessage) => void): void
}
