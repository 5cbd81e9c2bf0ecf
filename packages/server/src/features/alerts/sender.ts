import type { Deps } from '../../deps.ts'
import { type Egress, EgressError } from '../../egress/egress.ts'
import { version } from '../../version.ts'
import { allChannels } from './channels/all-channels.ts'
import type { HttpChannel, SocketChannel, Verdict } from './channels/channel.ts'
import { plainText } from './channels/plain-text.ts'
import { withoutSecrets } from './channels/without-secrets.ts'
import { type KnownChannel, signingSettings } from './directory.ts'
import type { Message } from './message.ts'

/** Enough to see what a receiver complains about; the rest would only fill the log of deliveries. */
const keptAnswer = 500
/** Shorter strings of settings, such as `json` or `eu`, are no secrets. */
const shortestSecret = 8
/** One try in any protocol, from the first byte to the last: a second more than the way out gives a request, so that it says why. */
export const tryWithinMs = 16_000

/** The two ways out: URLs given by API may not lead into the operator's network, those of the environment may. */
export interface Egresses {
  guarded: Egress
  open: Egress
}

function* texts(value: unknown): Generator<string> {
  if (typeof value === 'string') yield value
  else if (value !== null && typeof value === 'object') for (const part of Object.values(value)) yield* texts(part)
}

/** A receiver may answer with what it was sent: neither URL nor token must stand in the log of deliveries. */
const secretsOf = (settings: unknown): string[] =>
  [...texts(settings)]
    .flatMap((secret) => [secret, ...(URL.canParse(secret) ? urlSecrets(new URL(secret)) : [])])
    .filter((secret) => secret.length >= shortestSecret)

const urlSecrets = ({ pathname, search, username, password }: URL): string[] => [
  `${pathname}${search}`,
  pathname,
  ...pathname.split('/'),
  decodeURIComponent(username),
  decodeURIComponent(password),
]

/** Makes one try; resolves with what came of it, whatever that is. */
export type Send = (channel: KnownChannel, message: Message, signal: AbortSignal) => Promise<Verdict>

export function createSend(
  { clock, log, secrets }: Pick<Deps, 'clock' | 'log' | 'secrets'>,
  egresses: () => Promise<Egresses>,
): Send {
  async function attempt(channel: KnownChannel, message: Message, signal: AbortSignal): Promise<Verdict> {
    const now = clock.now()
    const { guarded, open } = await egresses()
    const egress = channel.managed_by === 'api' ? guarded : open
    const settings = signingSettings(channel, now) as never
    const sender = { deployment: secrets.deployment, version, now }
    const adapter = allChannels[channel.type] as HttpChannel | SocketChannel
    if ('deliver' in adapter) return adapter.deliver(message, settings, sender, egress, signal)
    return adapter.judge(await egress.post(adapter.request(message, settings, sender), signal))
  }

  return async (channel, message, closing) => {
    const signal = AbortSignal.any([closing, AbortSignal.timeout(tryWithinMs)])
    const clean = (text: string | null) =>
      text === null
        ? null
        : plainText(withoutSecrets(text, secretsOf([channel.settings, channel.previous_secrets])), keptAnswer)
    try {
      const verdict = await attempt(channel, message, signal)
      return { ...verdict, answer: clean(verdict.answer), error: clean(verdict.error) }
    } catch (fault) {
      const isOfReceiver = fault instanceof EgressError
      if (!isOfReceiver) {
        // A fault may carry what it stumbled over, such as a URL.
        const reason = clean(fault instanceof Error ? (fault.stack ?? fault.message) : String(fault))
        log.error({ channel: channel.id, type: channel.type, reason }, 'an alert could not be sent')
      }
      const error = isOfReceiver ? fault.message : 'The message could not be sent; the log of the service says why.'
      return { delivered: false, status: null, answer: null, error: clean(error) }
    }
  }
}
