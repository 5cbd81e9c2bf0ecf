import type { ChannelSettings, ChannelType } from '@wardline/contract'
import type { Egress, InboundAnswer, OutboundRequest } from '../../../egress/egress.ts'
import type { Message } from './message.ts'

/** What a channel needs to know besides its settings. */
export interface Sender {
  /** Names this deployment to receivers: constant over restarts and processes, 16 hexadecimal digits. */
  deployment: string
  /** Version of the service. */
  version: string
  /** Where people reach the service, for links to the dashboard. */
  publicUrl?: string | undefined
  /** Epoch milliseconds of this attempt. */
  now: number
}

/** Answer of a receiver to one attempt. */
export interface Verdict {
  delivered: boolean
  /** Status of HTTP or SMTP; null where the protocol has none. */
  status: number | null
  /** The receiver's answer; the dispatcher keeps its beginning. */
  answer: string | null
  /** Why it counts as not delivered, or what was wrong although it does: one plain sentence. */
  error: string | null
  /** Seconds that the receiver asked to wait. */
  retryAfterSeconds?: number
  /** The receiver will never accept anything again (410). */
  gone?: boolean
}

interface Shape<Type extends ChannelType> {
  type: Type
  /** Machines get each alert separately and at once; for people, related alerts are joined. */
  audience: 'people' | 'machines'
  /** Host of the receiver, for lists: the rest of the settings is secret. */
  destination(settings: ChannelSettings[Type]): string
}

/** A receiver that takes one POST for each message. */
export interface HttpChannel<Type extends ChannelType = ChannelType> extends Shape<Type> {
  /** Fields of the body that are settings: hidden where sent messages are shown. */
  confided?: readonly string[]
  /** Pure: the same message, settings and sender give the same bytes. */
  request(message: Message, settings: ChannelSettings[Type] & Rotated, sender: Sender): OutboundRequest
  /** Reads the answer; `judgeByStatus` unless the receiver hides failures behind a 200. */
  judge(answer: InboundAnswer): Verdict
}

/** Secrets that were replaced a short while ago, newest first: they sign too. */
export interface Rotated {
  previous_secrets?: string[]
}

/** A receiver of another protocol. Rejects with EgressError, or any Error with a plain sentence. `signal` always comes to its end. */
export interface SocketChannel<Type extends ChannelType = ChannelType> extends Shape<Type> {
  deliver(
    message: Message,
    settings: ChannelSettings[Type],
    sender: Sender,
    egress: Egress,
    signal: AbortSignal,
  ): Promise<Verdict>
  /** The text that `deliver` sends, for people who look at it later: without addresses and other settings. */
  written(message: Message, settings: ChannelSettings[Type], sender: Sender): string
}
