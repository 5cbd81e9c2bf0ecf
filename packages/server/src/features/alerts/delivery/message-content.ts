import { limits, type MessageContent } from '@wardline/contract'
import type { Deps } from '../../../deps.ts'
import { AppError, unknownId } from '../../../errors.ts'
import { allChannels } from '../channels/all-channels.ts'
import type { HttpChannel, SocketChannel } from '../channels/channel.ts'
import { readMessage } from '../channels/message.ts'
import type { FindRequest } from '../channels/press-token.ts'
import { secretRemover, secretsOfSettings } from '../channels/without-secrets.ts'
import type { KnownChannel } from '../routing/routing-table.ts'
import { signingSettings } from '../routing/sealed-settings.ts'
import { findContent, readThread } from './queries.ts'
import { buttonsOf, senderAt, threadAt } from './sender.ts'

/** Shorter parts of an address, such as `services`, are ordinary words, which must not be removed from texts. */
const minSecret = 16

/** Hides the fields of the body that are settings. */
function withoutConfided(body: string, confided: readonly string[]): string {
  if (confided.length === 0) return body
  const fields = Object.entries(JSON.parse(body) as Record<string, unknown>)
  return JSON.stringify(
    Object.fromEntries(fields.map(([name, value]) => [name, confided.includes(name) ? '[secret]' : value])),
  )
}

/**
 * Returns a message as its channel receives it, composed again by the code that sends it. Throws AppError `not_found` for
 * an unknown message, and if the settings of its channel were deleted.
 */
export async function viewContent(
  deps: Pick<Deps, 'database' | 'clock' | 'config' | 'secrets'> & { requestOf: FindRequest },
  channels: readonly KnownChannel[],
  id: string,
): Promise<MessageContent> {
  const stored = await findContent(deps.database.db, id)
  if (!stored) throw unknownId('message', id, 'wardline channels log')
  const channel = channels.find((known) => known.id === stored.channel_id)
  if (!channel) {
    throw new AppError(
      'not_found',
      `Channel ${stored.channel_id} was deleted, and the content of its messages with it.`,
    )
  }
  const now = deps.clock.now()
  const message = readMessage(stored.content)
  const settings = signingSettings(channel, now) as never
  const thread = stored.attempts > 1 ? undefined : await readThread(deps.database.db, message)
  // Without tokens: readers of messages may not decide.
  const buttons = await buttonsOf(deps, channel, message, () => '[secret]', true)
  const sender = { ...senderAt(deps, now), thread: threadAt(channel, thread), buttons }
  const adapter = allChannels[channel.type] as HttpChannel | SocketChannel
  const { type, body } =
    'deliver' in adapter
      ? { type: 'text/plain', body: adapter.written(message, settings, sender) }
      : requested(adapter, adapter.request(message, settings, sender))
  // In addition, in case an adapter puts tokens or addresses elsewhere.
  const secrets = secretsOfSettings([channel.settings, channel.previous_secrets])
  const remove = secretRemover(secrets.filter(({ length }) => length >= minSecret))
  return {
    id,
    channel_id: channel.id,
    channel_type: channel.type,
    content_type: type,
    body: remove(body, limits.shownContent),
    cut: body.length > limits.shownContent,
  }
}

const requested = ({ confided = [] }: HttpChannel, { headers, body }: ReturnType<HttpChannel['request']>) => ({
  type: headers['content-type'] ?? 'application/json',
  body: withoutConfided(body, confided),
})
