import type { Deps } from '../../../deps.ts'
import { type Egress, EgressError } from '../../../egress/egress.ts'
import { version } from '../../../version.ts'
import { allChannels } from '../channels/all-channels.ts'
import type { Buttons, HttpChannel, Sender, SocketChannel, Thread, Verdict } from '../channels/channel.ts'
import type { Message } from '../channels/message.ts'
import { maxArguments } from '../channels/message-lines.ts'
import { plainText } from '../channels/plain-text.ts'
import { type FindRequest, type Press, pressToken, shortToken } from '../channels/press-token.ts'
import { secretRemover, secretsOfSettings } from '../channels/without-secrets.ts'
import { isApprovalRequest } from '../outbox/alert.ts'
import { decides, type KnownChannel } from '../routing/routing-table.ts'
import { receiverMark, signingSettings } from '../routing/sealed-settings.ts'

/** Characters of a response in the delivery log: enough to see why a receiver refuses. */
const keptAnswer = 500

/**
 * Opens the two egresses: URLs set by API must not lead into the operator's network, those of the environment may. Loaded
 * on first use, because TLS takes memory.
 */
async function openEgresses(allow: readonly string[]): Promise<{ guarded: Egress; open: Egress }> {
  const { createEgress } = await import('../../../egress/open-egress.ts')
  return { guarded: createEgress({ guarded: true, allow }), open: createEgress({ guarded: false, allow }) }
}

/** Cached per version of a channel. */
const removers = new WeakMap<KnownChannel, (text: string) => string>()

/** Removes URLs and tokens from responses for the delivery log, because a receiver may repeat the request. */
function removerOf(channel: KnownChannel): (text: string) => string {
  const known = removers.get(channel)
  if (known) return known
  const remove = secretRemover(secretsOfSettings([channel.settings, channel.previous_secrets]))
  removers.set(channel, remove)
  return remove
}

/** Makes one attempt; resolves with its result, also if it failed. */
export type Send = (channel: KnownChannel, message: Message, signal: AbortSignal, thread?: Thread) => Promise<Verdict>

/** The thread as the adapter uses it; undefined if the channel had other settings when its first message was sent. */
export function threadAt(channel: KnownChannel, thread: Thread | undefined): Thread | undefined {
  const [mark, reference] = thread?.reference.split(' ') ?? []
  return thread && reference && mark === receiverMark(channel) ? { ...thread, reference } : undefined
}

/** Arguments of an adapter besides message and settings, without buttons. */
export const senderAt = ({ config, secrets }: Pick<Deps, 'config' | 'secrets'>, now: number): Sender => ({
  deployment: secrets.deployment,
  version,
  publicUrl: config.publicUrl,
  traceUrl: config.traceUrl,
  now,
})

/**
 * The buttons of a message, of a single request that one operator may decide and that the message shows in full; undefined
 * if it has none. `sign` makes their tokens.
 */
export async function buttonsOf(
  { config, requestOf }: Pick<Deps, 'config'> & { requestOf: FindRequest },
  channel: KnownChannel,
  { kind, alerts, more }: Message,
  sign: (press: Press) => string,
  isSent = false,
): Promise<Buttons | undefined> {
  const [alert] = alerts
  // Buttons of ntfy call the service, those of Telegram do not.
  const isReached = channel.type !== 'ntfy' || config.publicUrl !== undefined
  if (!decides(channel) || !isReached || !alert) return undefined
  const isOne = (kind === 'alert' || kind === 'reminder') && alerts.length === 1 && more === 0
  if (!isOne || !isApprovalRequest(alert) || alert.event_seq === null) return undefined
  const request = await requestOf(alert.id)
  if (request?.needed !== 1 || !(request.isPending || isSent)) return undefined
  const { args } = request
  if (args === null || args.length > maxArguments) return undefined
  const press = { approvalId: alert.id, channelId: channel.id, mark: receiverMark(channel) }
  return { ...press, args, tokenOf: (decision) => sign({ ...press, decision }) }
}

export function createSend({
  clock,
  log,
  ...deps
}: Pick<Deps, 'config' | 'clock' | 'log' | 'secrets'> & { requestOf: FindRequest }): {
  send: Send
  closeEgresses(): Promise<void>
} {
  let egresses: ReturnType<typeof openEgresses> | undefined

  async function attempt(
    channel: KnownChannel,
    message: Message,
    signal: AbortSignal,
    thread: Thread | undefined,
    buttons: Buttons | undefined,
  ): Promise<Verdict> {
    const now = clock.now()
    egresses ??= openEgresses(deps.config.alertAllowCidrs ?? [])
    const { guarded, open } = await egresses
    const egress = channel.managed_by === 'api' ? guarded : open
    const settings = signingSettings(channel, now) as never
    const sender = { ...senderAt(deps, now), thread: threadAt(channel, thread), buttons }
    const adapter = allChannels[channel.type] as HttpChannel | SocketChannel
    if ('deliver' in adapter) return adapter.deliver(message, settings, sender, egress, signal)
    return adapter.judge(await egress.post(adapter.request(message, settings, sender), signal))
  }

  const send: Send = async (channel, message, signal, thread) => {
    const sign = (press: Press) => pressToken(press, deps.secrets.pressKey)
    // Without the database the message is sent without buttons.
    const buttons = await buttonsOf(deps, channel, message, sign).catch(() => undefined)
    const removeSettings = removerOf(channel)
    // ntfy answers with the message, and the log of deliveries is for readers, who may not decide.
    const removeTokens = secretRemover(
      buttons ? [buttons.tokenOf('approve'), buttons.tokenOf('deny')].map(shortToken) : [],
    )
    const remove = (text: string) => removeTokens(removeSettings(text))
    // Repeated after sanitizing, which may have joined the parts of a secret.
    const clean = (text: string | null) => (text === null ? null : remove(plainText(remove(text), keptAnswer)))
    try {
      const { reference, ...verdict } = await attempt(channel, message, signal, thread, buttons)
      const stored = reference === undefined ? {} : { reference: `${receiverMark(channel)} ${reference}` }
      return { ...verdict, ...stored, answer: clean(verdict.answer), error: clean(verdict.error) }
    } catch (fault) {
      const isOfReceiver = fault instanceof EgressError
      if (!isOfReceiver) {
        // The message of a fault may contain a URL.
        const reason = clean(fault instanceof Error ? (fault.stack ?? fault.message) : String(fault))
        log.error({ channel: channel.id, type: channel.type, reason }, 'an alert could not be sent')
      }
      const error = isOfReceiver
        ? fault.message
        : 'The message could not be sent; the reason is in the log of the service.'
      return { delivered: false, status: null, answer: null, error: clean(error) }
    }
  }
  return {
    send,
    async closeEgresses() {
      for (const egress of Object.values((await egresses) ?? {})) egress.close()
    },
  }
}
