import { isoTime } from '../../../clock.ts'
import type { Message } from '../message.ts'
import type { HttpChannel, Sender } from './channel.ts'
import { judgeByStatus } from './http-verdict.ts'
import { receiverHost } from './receiver-url.ts'
import { userAgent } from './reporter.ts'
import { type ToldRow, type ToldTitle, toldAt, toldType, writeFitting } from './told-row.ts'
import { webhookSignature } from './webhook-signature.ts'

/** Standard Webhooks recommends payloads below 20 kB: many receivers stand behind something that refuses more. */
const mostBytes = 20_000

/** No event type holds a dot: an agent that calls its breach `test` is not taken for one. */
const dottedType = (message: Message): string =>
  `${message.alerts.length === 0 ? 'channel' : 'alert'}.${toldType(message)}`

function standardEvent(message: Message, data: ToldRow | ToldTitle) {
  return { type: dottedType(message), timestamp: isoTime(message.created_at), data }
}

/** CloudEvents 1.0, JSON format in structured mode. */
function cloudEvent(message: Message, data: ToldRow | ToldTitle, { deployment }: Sender) {
  return {
    specversion: '1.0',
    id: message.id,
    source: `urn:wardline:${deployment}`,
    type: `io.wardline.${dottedType(message)}`,
    subject: message.alerts[0]?.instance_id ?? undefined,
    time: isoTime(toldAt(message)),
    datacontenttype: 'application/json',
    data,
  }
}

/**
 * Any receiver of Standard Webhooks 1.0.0 (https://www.standardwebhooks.com). While a secret is being rotated every
 * secret signs. Without a secret, which a channel of the environment may lack, nothing is signed.
 */
export const webhook: HttpChannel<'webhook'> = {
  type: 'webhook',
  audience: 'machines',
  destination: receiverHost,
  judge: judgeByStatus,

  request(message, { url, secret, format, previous_secrets = [] }, sender) {
    const isCloudEvent = format === 'cloudevents'
    const body = writeFitting(message, mostBytes, (data) =>
      JSON.stringify(isCloudEvent ? cloudEvent(message, data, sender) : standardEvent(message, data)),
    )
    const timestamp = Math.floor(sender.now / 1_000)
    const content = { id: message.id, timestamp, body }
    return {
      url,
      headers: {
        'content-type': isCloudEvent ? 'application/cloudevents+json' : 'application/json',
        'user-agent': userAgent(sender),
        'webhook-id': message.id,
        'webhook-timestamp': String(timestamp),
        ...(secret === undefined
          ? {}
          : { 'webhook-signature': webhookSignature(content, [secret, ...previous_secrets]) }),
      },
      body,
    }
  },
}
