import { isoTime } from '../../../clock.ts'
import type { HttpChannel, Sender } from './channel.ts'
import { judgeByStatus, receiverHost, userAgent } from './http-receiver.ts'
import { happenedAt, type MachineRow, type MachineTitle, typeOf, writeBounded } from './machine-row.ts'
import type { Message } from './message.ts'
import { signedHeaders } from './standard-webhook.ts'

/** Standard Webhooks recommends payloads below 20 kB, because proxies of many receivers refuse larger ones. */
const maxBytes = 20_000

/** Event types cannot contain a dot, so an event of type `test` cannot look like a test of the channel. */
const dottedType = (message: Message): string =>
  `${message.alerts.length === 0 ? 'channel' : 'alert'}.${typeOf(message)}`

function standardEvent(message: Message, data: MachineRow | MachineTitle) {
  return { type: dottedType(message), timestamp: isoTime(message.created_at), data }
}

/** CloudEvents 1.0, JSON format in structured mode. */
function cloudEvent(message: Message, data: MachineRow | MachineTitle, { deployment }: Sender) {
  return {
    specversion: '1.0',
    id: message.id,
    source: `urn:wardline:${deployment}`,
    type: `io.wardline.${dottedType(message)}`,
    subject: message.alerts[0]?.instance_id ?? undefined,
    time: isoTime(happenedAt(message)),
    datacontenttype: 'application/json',
    data,
  }
}

/**
 * Any receiver of Standard Webhooks 1.0.0 (https://www.standardwebhooks.com). During a rotation, the old secrets sign
 * too. A channel from the environment may have no secret; its messages are not signed.
 */
export const webhook: HttpChannel<'webhook'> = {
  type: 'webhook',
  destination: receiverHost,
  judge: judgeByStatus,

  request(message, { url, secret, format, previous_secrets = [] }, sender) {
    const isCloudEvent = format === 'cloudevents'
    const body = writeBounded(message, sender, maxBytes, (data) =>
      JSON.stringify(isCloudEvent ? cloudEvent(message, data, sender) : standardEvent(message, data)),
    )
    const content = { id: message.id, timestamp: Math.floor(sender.now / 1_000), body }
    return {
      url,
      headers: {
        'content-type': isCloudEvent ? 'application/cloudevents+json' : 'application/json',
        'user-agent': userAgent(sender),
        ...signedHeaders(content, secret === undefined ? [] : [secret, ...previous_secrets]),
      },
      body,
    }
  },
}
