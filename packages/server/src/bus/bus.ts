import type { ControlMessage } from '@wardline/contract'
import type { EventFields } from '../db/schema/events.ts'
import type { Notice } from './notice.ts'

export type WriteEvent = (event: EventFields) => string
export type ReadEvent = (text: string) => EventFields
export type EventListener = (rows: readonly EventFields[]) => void

/**
 * Sends committed changes to all processes. Messages may be lost, duplicated or reordered; the database is the source
 * of truth.
 */
export interface Bus {
  /**
   * Calls the listeners of this process immediately and sends to the other processes as soon as possible. Never blocks
   * or fails. `write` serializes the published text.
   */
  publishEvents(rows: readonly EventFields[], write: WriteEvent): void
  publishControl(message: ControlMessage): void
  /** Publishes what agents may fetch now, after the commit. */
  publishNotice(notice: Notice): void
  /** Listens for events stored by any process of this deployment. `read` throws if a received text is not an event. */
  onEvents(listener: EventListener, read: ReadEvent): void
  /** Listens for kills and resumes signed by any process of this deployment. */
  onControl(listener: (message: ControlMessage) => void): void
  /** Listens for notices signed by any process of this deployment within the last minute; each is heard once. */
  onNotice(listener: (notice: Notice) => void): void
  /** Listens for unvalidated messages that other programs published on the events channel. */
  onOutsideEvents(listener: (message: Buffer) => void): void
  /**
   * Called after each connection, including the first. Messages since `missedSince` (epoch milliseconds) may have been
   * missed and must be read from the database.
   */
  onReconnect(listener: (missedSince: number) => void): void
  readonly state: 'in-process' | 'ok' | 'unavailable'
  /** Whether this process receives the changes of all processes almost immediately. */
  readonly receivesAll: boolean
  /** Stops receiving, after waiting up to half a second for pending messages to be sent. */
  close(): Promise<void>
}
