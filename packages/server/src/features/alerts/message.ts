import type { messageKinds } from '@wardline/contract'
import type { StoredEvent } from '../../db/schema.ts'

export type Severity = StoredEvent['severity']

/** One alert as a message tells it. Every text in it may come from an attacker. */
export interface ToldAlert {
  id: string
  seq: number
  severity: Severity
  source: string
  /** The service itself says so; whoever holds a key can report any type from any source. */
  by_service: boolean
  event_type: string
  description: string
  instance_id: string | null
  session_id: string | null
  ip_address: string | null
  /** JSON object; only in messages to machines. */
  metadata: Record<string, unknown> | null
  event_seq: number | null
  /** Epoch milliseconds. */
  created_at: number
}

/**
 * What is sent, in no medium's form. It is stored with the message and never changes: every try sends the same.
 *
 * Kinds: `alert` tells of one group (to machines: of exactly one alert); `digest` of what came while a channel had to
 * hold back; `reminder` of what nobody acknowledged; `resolved` of what is over; `test` was asked for by an operator;
 * `check` is the daily proof that a channel works.
 */
export interface Message {
  /** Constant over all tries: receivers know doubles by it. */
  id: string
  kind: (typeof messageKinds)[number]
  /** Epoch milliseconds. */
  created_at: number
  /** The highest of all it tells of. */
  severity: Severity
  /** One line for people, at most 200 characters, made by the service; ids in it are of the pattern of instance ids. */
  title: string
  /** Constant for all that is told of the same problem: `<type> <instance>`; at most 255 characters. Null for digests, tests and checks. */
  group: string | null
  /** Newest last, at most ten. Empty for tests and checks. */
  alerts: ToldAlert[]
  /** How many more there are than `alerts` shows. */
  more: number
}
