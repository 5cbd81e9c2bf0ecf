import { type CharacterSize, utf8Size } from '@wardline/text'
import type { Severity } from '../outbox/alert.ts'
import type { HttpChannel } from './channel.ts'
import { answerFields, jsonPost, judgeByStatus, receiverHost, receiverUrl, refused } from './http-receiver.ts'
import type { Message } from './message.ts'
import { bodyLines, isQuiet, messageLines, titleText } from './message-lines.ts'
import { unlinked } from './plain-text.ts'

/** A message has at most 4,096 bytes, else it becomes an attachment; the rest is for note and count. */
const room = 3_800
const size: CharacterSize = utf8Size

const priorities: Record<Severity, number> = { breach: 5, critical: 4, warning: 3, info: 2 }
/** 2 comes without a sound. A test is to be heard, as an alert would be. */
function priorityOf(message: Message): number {
  if (isQuiet(message)) return 2
  return message.kind === 'test' ? 3 : priorities[message.severity]
}

/** Names of emoji, which ntfy puts before the title: https://docs.ntfy.sh/emojis/. */
const tags: Record<Severity, string> = {
  breach: 'rotating_light',
  critical: 'red_circle',
  warning: 'warning',
  info: 'information_source',
}

/**
 * https://docs.ntfy.sh/publish/#publish-as-json: everything goes in the body, to the server's root, so that no text can
 * become a header. The apps turn bare domains into links.
 */
export const ntfy: HttpChannel<'ntfy'> = {
  type: 'ntfy',
  audience: 'people',
  confided: ['topic'],
  destination: receiverHost,
  request(message, settings, sender) {
    const url = receiverUrl(settings.url)
    const names = url.pathname.split('/').filter((name) => name !== '')
    const topic = names.pop() ?? ''
    url.pathname = `/${names.map((name) => `${name}/`).join('')}`
    const lines = messageLines(message, sender, { room, size, change: unlinked })
    const payload = {
      topic,
      title: titleText(message, { change: unlinked }),
      message: bodyLines(lines).join('\n'),
      priority: priorityOf(message),
      tags: [message.kind === 'resolved' ? 'white_check_mark' : tags[message.severity]],
      ...(lines.link === null ? {} : { click: lines.link }),
    }
    const access: Record<string, string> =
      settings.token === undefined ? {} : { authorization: `Bearer ${settings.token}` }
    return jsonPost(url.href, payload, sender, access)
  },
  judge(answer) {
    const verdict = judgeByStatus(answer)
    const { id } = answerFields(answer.body)
    return verdict.delivered && typeof id !== 'string'
      ? refused(verdict, 'The answer of the receiver is not from ntfy.')
      : verdict
  },
}
