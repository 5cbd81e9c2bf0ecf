import { channelKinds } from '@wardline/contract'
import { GroupCommit } from '../../../db/group-commit.ts'
import { attemptWithinMs, Delivery } from '../../../delivery/delivery.ts'
import type { Deps } from '../../../deps.ts'
import type { MailRecipients } from '../../people/mail-recipients.ts'
import type { Thread, Verdict } from '../channels/channel.ts'
import { type Message, readMessage } from '../channels/message.ts'
import { secretRemover } from '../channels/without-secrets.ts'
import { type Lane, lanes } from '../outbox/alert.ts'
import { readOfTeam } from '../outbox/notice-queries.ts'
import { receiverStatement } from '../routing/queries.ts'
import type { KnownChannel, RoutingTable } from '../routing/routing-table.ts'
import {
  type ClaimedMessage,
  claimMessages,
  isOvertaken,
  type MessageAttempt,
  messages,
  readThread,
  resultStatement,
} from './queries.ts'
import type { Receivers } from './receivers.ts'
import { pausesMs, personalPausesMs } from './retry-schedule.ts'
import type { Send } from './sender.ts'

/** Concurrent attempts per lane, and messages claimed at once: the last one is attempted well within its lease. */
const machineCapacity = { own: { attempts: 4, claim: 8 }, reported: { attempts: 8, claim: 16 } }
/** Chats get messages in sequence, but a hanging report must not delay the service's own alerts: one attempt per lane. */
const peopleCapacity = { attempts: 1, claim: 1 }
/** Lease of a message: as long as the attempts before it may take, of those claimed at once. */
export const leaseMs = 4 * attemptWithinMs

/** The service's own alerts do not wait for reports. */
interface ChannelLane {
  lane: Lane
  channel: KnownChannel
}

export type MessageDelivery = Delivery<ChannelLane, ClaimedMessage, Verdict>

interface MessageParts {
  table: Pick<RoutingTable, 'current'>
  receivers: Receivers
  send: Send
  recipients: Pick<MailRecipients, 'find'>
  closeEgresses: () => Promise<void>
  /** Called if a receiver answered that it is gone for good (410). */
  onGone: (channelId: string) => Promise<void>
}

/** Delivers the messages of all channels. */
export function createMessageDelivery(
  deps: Pick<Deps, 'database' | 'clock' | 'log' | 'metrics'>,
  { table, receivers, send, recipients, closeEgresses, onGone }: MessageParts,
): MessageDelivery {
  const { database, clock, metrics } = deps
  /** Looked up again for each attempt, because a channel may have been changed or disabled. */
  const currentOf = ({ id: known }: KnownChannel) => table.current.channels.find(({ id }) => id === known)

  const results = new GroupCommit<MessageAttempt, true>({
    queue: 'alert_results',
    clock,
    metrics,
    commit: write,
    weigh: () => ({ rows: 1, bytes: 1_000 }),
  })

  async function write(attempts: MessageAttempt[]): Promise<true[]> {
    const byChannel = Map.groupBy(attempts, ({ row }) => row.channel_id)
    // Lock channels first, in a fixed order, like every transaction that locks both, to prevent deadlocks.
    const channels = [...byChannel].sort(([one], [other]) => (one < other ? -1 : 1))
    // What a server says of one person's address must not pause the channel.
    const states = channels.flatMap(([id, own]) => {
      const ofReceiver = own.filter(({ verdict }) => !verdict.isOfPerson)
      return ofReceiver.length === 0 ? [] : [receivers.stateAfter(id, ofReceiver)]
    })
    await database.batch([
      ...states.map((state) => receiverStatement(database.db, state)),
      ...attempts.map((attempt) => resultStatement(database.db, attempt)),
    ])
    receivers.learn(states)
    return attempts.map(() => true)
  }

  /**
   * A receiver that is down is probed with one message. The service's own messages are attempted once in any case, because
   * a receiver may only refuse those reported by callers.
   */
  function capacity({ lane, channel }: ChannelLane): { free: number; claim: number } {
    const { id, type } = channel
    const running = (of: Lane) => delivery.running({ lane: of, channel })
    if (!currentOf(channel)?.enabled) return { free: 0, claim: 0 }
    if (receivers.isPaused(id)) return { free: lane === 'own' && running('own') === 0 ? 1 : 0, claim: 1 }
    if (receivers.isDown(id)) return { free: lanes.every((of) => running(of) === 0) ? 1 : 0, claim: 1 }
    const { attempts, claim } = channelKinds[type].audience === 'machines' ? machineCapacity[lane] : peopleCapacity
    return { free: attempts - running(lane), claim }
  }

  async function threadOf(row: ClaimedMessage, message: Message): Promise<Thread | undefined> {
    // A retry stands alone: the receiver may have refused because its first message is gone.
    if (row.attempts > 0 || (await isOvertaken(database.db, row))) return undefined
    return readThread(database.db, message)
  }

  /** Sends to the address that the person has now, if they still get mail and see all agents of it. */
  async function sendToPerson(
    channel: KnownChannel,
    personId: string,
    message: Message,
    signal: AbortSignal,
  ): Promise<Verdict> {
    const recipient = channel.personal_mail ? await recipients.find(personId) : undefined
    const seqs = message.alerts.map(({ seq }) => seq)
    const seen = recipient && (await readOfTeam(database.db, seqs, recipient.team))
    if (!recipient || seen?.length !== seqs.length) {
      const error = 'Not sent: the person gets no mail any more, or not of these agents.'
      return { delivered: false, status: null, answer: null, error, isOfPerson: true, final: true }
    }
    const { address } = recipient
    const verdict = await send(
      { ...channel, settings: { ...channel.settings, to: [address] } as never },
      message,
      signal,
    )
    // Servers repeat the address, which readers of the log must not learn.
    const error = verdict.error === null ? null : secretRemover([address])(verdict.error)
    return { ...verdict, answer: null, error, ...(verdict.ofRecipients ? { isOfPerson: true } : {}) }
  }

  const delivery: MessageDelivery = new Delivery(deps, {
    queue: messages,
    leaseMs,
    nameOf: ({ lane, channel }) => `${lane} ${channel.id}`,
    capacity,
    claim: ({ lane, channel: { id } }, claim, limit) =>
      claimMessages(database.db, { channelId: id, lane, limit, unattemptedOnly: receivers.isPaused(id) }, claim),
    async attempt({ channel }, row, signal) {
      const message = readMessage(row.content)
      const current = currentOf(channel) ?? channel
      if (row.person_id !== null) return sendToPerson(current, row.person_id, message, signal)
      const thread = await threadOf(row, message).catch(() => undefined)
      return send(current, message, signal, thread)
    },
    pausesMs: ({ kind, person_id }) => (person_id === null ? pausesMs[kind] : personalPausesMs),
    close: closeEgresses,
    store: (attempt) => results.add(attempt),
    async stored({ channel: { id, type: channel } }, { row, verdict, nextAt }, durationMs) {
      const result = verdict.delivered ? 'delivered' : nextAt === undefined ? 'dead' : 'failed'
      metrics.alertAttempts.inc({ channel, result })
      metrics.alertAttemptSeconds.observe({ channel }, durationMs / 1_000)
      const delayMs = Math.max(0, clock.now() - row.created_at)
      if (verdict.delivered) metrics.alertDelaySeconds.observe({ channel }, delayMs / 1_000)
      // Who sends a test sees the answer.
      if (verdict.gone && row.kind !== 'test') await onGone(id)
    },
  })
  return delivery
}
