import type { EventColumn, EventRow, messageKinds, Severity } from '@wardline/contract'
import { uuidV7 } from '../../../ids.ts'
import type { PlannedAlert } from '../outbox/queries.ts'

/** Id and group of the first message about an incident. */
export interface Incident {
  id: string
  group: string
  /** Number of the message among those about the instance, because several may be of the same millisecond. */
  place: number
}

/** A decoy that an alert is about. The label is only sent to channels, which are private: events do not contain it. */
export interface DecoyContext {
  id: string
  /** Where it is planted, in the operator's words; at most 200 characters. */
  label: string | null
  type: 'api_key' | 'file_path'
  key_type: string | null
  /** The instance where it is planted. */
  /** Null: a path that is a decoy for every agent. */
  instance_id: string | null
}

/** A suspension that is in force when the message is composed. */
export interface SuspensionContext {
  /** Name of the key, or `Wardline` or `the command line`; null if the audit log does not contain it. */
  by: string | null
  /** Epoch milliseconds. */
  at: number | null
  reason: string | null
  /** Whether the agent confirmed that it stopped. */
  confirmed: boolean
}

/** Read when a message is composed, and not when an alert is stored, so that storing stays cheap. */
export interface AlertContext {
  /** Display name of the instance; null if it is not registered. */
  instance_name: string | null
  /** At most 100 characters. */
  tool: string | null
  /** At most ten; empty unless the service itself reported the hit. */
  decoys: DecoyContext[]
  /** The key that an alert of the service is about. */
  key: { id: string; name: string } | null
  /** The suspension of the instance; null if it is not suspended. */
  suspension: SuspensionContext | null
  /** Of a confirmed suspension: the newest open alert of critical or breach about the instance, which is not over. */
  open: { id: string; severity: Severity } | null
}

export const noContext: AlertContext = {
  instance_name: null,
  tool: null,
  decoys: [],
  key: null,
  suspension: null,
  open: null,
}

/** Columns of an event that its alert does not store. */
export type OnlyOfEvents = Exclude<EventColumn, keyof PlannedAlert>

/** A planned alert with its context and its event; metadata only in messages to machines. Every text may come from an attacker. */
export interface DeliveredAlert
  extends Omit<PlannedAlert, 'by_service' | 'subject' | 'only_channels'>,
    Pick<EventRow, OnlyOfEvents>,
    AlertContext {
  by_service: boolean
}

/**
 * Content of a message, independent of the medium. It is stored and never changes, so every attempt sends the same.
 *
 * Kinds: `alert` is about one group (for machines: about exactly one alert); `digest` about delayed alerts; `reminder`
 * about an unacknowledged problem; `resolved` about a problem that ended; `test` was requested by an operator; `check`
 * is the daily check that a channel works.
 */
export interface Message {
  /** The same for all attempts: receivers detect duplicates by it. */
  id: string
  kind: (typeof messageKinds)[number]
  /** Epoch milliseconds. */
  created_at: number
  /** Highest severity of its alerts. */
  severity: Severity
  /** One line for people, at most 200 characters, composed by the service; ids in it match the instance id pattern. */
  title: string
  /**
   * The same for all messages about a problem: `<type> <instance>`, at most 255 characters. Null for digests, tests and
   * checks.
   */
  group: string | null
  /**
   * The first message of this channel about the same trouble of an instance, which may be this one. Null for machines,
   * digests, tests and checks.
   */
  incident: Incident | null
  /** Newest last, at most ten. Empty for tests and checks. */
  alerts: DeliveredAlert[]
  /** Of a mail to a person: why they get it. */
  personal?: Personal
  /** Number of further alerts, which are not in `alerts`. */
  more: number
}

/** Why a person gets a mail. */
export interface Personal {
  /** Whether an alert of it is assigned to them. */
  assigned: boolean
  /** Tags of agents that they chose, of its alerts. */
  tags: string[]
  /** Whether it had to wait, because the person had all mails of the hour. */
  heldBack: boolean
}

/** Parses a stored message. Messages stored by earlier versions have neither context nor incident. */
export function readMessage(content: string): Message {
  const message: Message = JSON.parse(content)
  return {
    ...message,
    incident: message.incident ?? null,
    alerts: message.alerts.map((alert) => ({ ...noContext, ...alert })),
  }
}

const noticeTitles = { test: 'Test message of Wardline', check: 'Daily check: alerts reach this channel' }

/** Returns a message without an alert. */
export const noticeMessage = (kind: keyof typeof noticeTitles, now: number): Message => ({
  id: uuidV7(now),
  kind,
  created_at: now,
  severity: 'info',
  title: noticeTitles[kind],
  group: null,
  incident: null,
  alerts: [],
  more: 0,
})
