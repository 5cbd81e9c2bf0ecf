import type { ApprovalPress, ChannelSettings, ChannelType } from '@wardline/contract'
import type { Egress, InboundAnswer, OutboundRequest } from '../../../egress/egress.ts'
import type { Message } from './message.ts'

/** Arguments of an adapter besides message and settings. */
export interface Sender {
  /** Identifies this deployment to receivers: 16 hexadecimal digits, the same after restarts and in all processes. */
  deployment: string
  /** Version of the service. */
  version: string
  /** Base URL for links to the dashboard. */
  publicUrl?: string | undefined
  /** Address of a trace, with a place for its id. */
  traceUrl?: string | undefined
  /** Epoch milliseconds of this attempt. */
  now: number
  /** Buttons that decide the approval which the message asks for; undefined if it has none. */
  buttons?: Buttons | undefined
  /** The first message of the incident as the receiver stored it; undefined for the first one itself. */
  thread?: Thread | undefined
}

/** How buttons decide an approval. A token is all that a decision needs. */
export interface Buttons {
  approvalId: string
  channelId: string
  /** The arguments of the call, text of the agent. */
  args: string
  tokenOf(decision: ApprovalPress['decision']): string
}

/** A delivered message that later ones of its incident answer or extend. */
export interface Thread {
  /** Id that the receiver gave the message. */
  reference: string
  first: Message
}

/** Result of one attempt. */
export interface Verdict {
  delivered: boolean
  /** HTTP or SMTP status; null if the protocol has none. */
  status: number | null
  /** Response of the receiver; `createSend` keeps its first 500 characters. */
  answer: string | null
  /** One sentence: why the attempt failed, or a partial failure of a delivered message. */
  error: string | null
  /** Minimum delay before the next attempt, as requested by the receiver. */
  retryAfterSeconds?: number
  /** Id that the receiver gave the message, for later ones of its incident; at most 100 characters. */
  reference?: string
  /** The receiver works, and refused the recipients or the text. */
  ofRecipients?: true
  /** Of a mail to a person: it says nothing about the receiver, only about them. */
  isOfPerson?: true
  /** No further attempt. */
  final?: true
  /** The receiver does not want any more messages (410). */
  gone?: boolean
}

interface Shape<Type extends ChannelType> {
  type: Type
  /** Returns the host of the receiver, for lists; the rest of the settings is secret. */
  destination(settings: ChannelSettings[Type]): string
}

/** A receiver that accepts one POST per message. */
export interface HttpChannel<Type extends ChannelType = ChannelType> extends Shape<Type> {
  /** Fields of the body that contain settings; they are hidden when a sent message is shown. */
  confided?: readonly string[]
  /** Pure: the same message, settings and sender result in the same bytes. */
  request(message: Message, settings: ChannelSettings[Type] & Rotated, sender: Sender): OutboundRequest
  /** Interprets the response. This is `judgeByStatus` for receivers whose 2xx always means success. */
  judge(answer: InboundAnswer): Verdict
}

/** Recently rotated secrets, newest first. They sign too, until the overlap ends. */
export interface Rotated {
  previous_secrets?: string[]
}

/** A receiver that does not use HTTP. */
export interface SocketChannel<Type extends ChannelType = ChannelType> extends Shape<Type> {
  /**
   * Rejects with EgressError if the receiver could not be reached or did not respond. Needs no timeout, because the
   * caller's `signal` has one.
   */
  deliver(
    message: Message,
    settings: ChannelSettings[Type],
    sender: Sender,
    egress: Egress,
    signal: AbortSignal,
  ): Promise<Verdict>
  /** Returns the text that `deliver` sends, without addresses and other settings, to show a sent message. */
  written(message: Message, settings: ChannelSettings[Type], sender: Sender): string
}
