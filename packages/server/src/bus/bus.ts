import type { ControlMessage } from '@wardline/contract'
import type { EventFields } from '../db/schema/events.ts'

export type WriteEvent = (event: EventFields) => string
export type ReadEvent = (text: string) => EventFields
export type EventListener = (rows: readonly EventFields[]) => void

/** Carries what was committed to every process. It may lose, double or reorder: the database is the truth. */
export interface Bus {
  /**
   * Calls the listeners of this process at once and sends to the other processes as soon as possible. Never blocks,
   * never fails. `write` makes the text that is published.
   */
  publishEvents(rows: readonly EventFields[], write: WriteEvent): void
  publishControl(message: ControlMessage): void
  /** Events that a process of this deployment stored. `read` throws when a text that travelled is no event. */
  onEvents(listener: EventListener, read: ReadEvent): void
  /** Kills and resumes that a process of this deployment signed. */
  onControl(listener: (message: ControlMessage) => void): void
  /** Messages that other programs published on the events channel, not yet validated. */
  onOutsideEvents(listener: (message: Buffer) => void): void
  /**
   * From now on everything is heard again. What was said since an instant (epoch milliseconds) may have been missed,
   * also at the first connection, and is to be read from the database.
   */
  onReconnect(listener: (missedSince: number) => void): void
  readonly state: 'in-process' | 'ok' | 'unavailable'
  /** Whether a change that any process makes is heard here, a moment after it at most. */
  readonly receivesAll: boolean
  /** Sends what is under way, for at most half a second, and hears nothing more. */
  close(): Promise<void>
}
