import type { messageKinds, Severity } from '@wardline/contract'
import { uuidV7 } from '../../../ids.ts'
import type { PlannedAlert } from '../outbox/queries.ts'

/** A decoy that an alert is about. Channels are private: neither the stream nor an event has its label. */
export interface DecoyContext {
  id: string
  /** Where it is planted, in the operator's words; at most 200 characters. */
  label: string | null
  type: 'api_key' | 'file_path'
  key_type: string | null
  /** The instance that it is planted at. */
  instance_id: string
}

/** In force while the message is composed. */
export interface SuspensionContext {
  /** Name of the key, or `Wardline` or `the command line`; null when the audit log does not say. */
  by: string | null
  /** Epoch milliseconds. */
  at: number | null
  reason: string | null
  /** The agent says that it stopped. */
  confirmed: boolean
}

/** What is read when a message is composed, so that storing an alert costs nothing for it. */
export interface AlertContext {
  /** Display name of the instance; null when it is not registered. */
  instance_name: string | null
  /** At most 100 characters. */
  tool: string | null
  /** At most ten; only when the service itself says that they were touched. */
  decoys: DecoyContext[]
  /** The key that the service reports, by its name. */
  key: { id: string; name: string } | null
  /** A suspension of the instance. */
  suspension: SuspensionContext | null
}

export const noContext: AlertContext = { instance_name: null, tool: null, decoys: [], key: null, suspension: null }

/** An alert as it is delivered: what was planned, with its context. Every text in it may come from an attacker. */
export interface DeliveredAlert extends Omit<PlannedAlert, 'by_service' | 'subject' | 'only_channels'>, AlertContext {
  by_service: boolean
  ip_address: string | null
  /** JSON object; only in messages to machines. */
  metadata: Record<string, unknown> | null
}

/**
 * What is sent, independent of the medium. It is stored with the message and never changes: every attempt sends the
 * same.
 *
 * Kinds: `alert` is about one group (to machines: about exactly one alert); `digest` about delayed alerts; `reminder`
 * about what is not acknowledged; `resolved` about what is over; `test` was requested by an operator; `check` is the
 * daily proof that a channel works.
 */
export interface Message {
  /** Constant over all attempts: receivers recognize duplicates by it. */
  id: string
  kind: (typeof messageKinds)[number]
  /** Epoch milliseconds. */
  created_at: number
  /** The highest of its alerts. */
  severity: Severity
  /** One line for people, at most 200 characters, made by the service; ids in it are of the pattern of instance ids. */
  title: string
  /** The same for all messages about a problem: `<type> <instance>`; at most 255 characters. Null for digests, tests and checks. */
  group: string | null
  /** Newest last, at most ten. Empty for tests and checks. */
  alerts: DeliveredAlert[]
  /** How many more there are than `alerts` shows. */
  more: number
}

/** A stored message; those of a version before have no context. */
export function readMessage(content: string): Message {
  const message: Message = JSON.parse(content)
  return { ...message, alerts: message.alerts.map((alert) => ({ ...noContext, ...alert })) }
}

const noticeTitles = { test: 'Test message of Wardline', check: 'Daily check: alerts reach this channel' }

/** A message about no alert. */
export const noticeMessage = (kind: keyof typeof noticeTitles, now: number): Message => ({
  id: uuidV7(now),
  kind,
  created_at: now,
  severity: 'info',
  title: noticeTitles[kind],
  group: null,
  alerts: [],
  more: 0,
})
