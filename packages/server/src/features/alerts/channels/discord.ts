import type { Severity } from '@wardline/contract'
import { type CharacterSize, cutText } from '@wardline/text'
import { isoTime } from '../../../clock.ts'
import type { HttpChannel } from './channel.ts'
import {
  answerFields,
  askedPause,
  jsonPost,
  judgeByStatus,
  receiverHost,
  receiverUrl,
  refused,
} from './http-receiver.ts'
import type { Message } from './message.ts'
import { alertLines, commandLabel, type MessageLines, messageLines } from './message-lines.ts'

/** Limits of an embed: 256 characters of title, 4,096 of description. */
const maxTitle = 256
const room = 3_800

const colors: Record<Severity, number> = { breach: 0x8e1b3a, critical: 0xd92d20, warning: 0xf5a623, info: 0x3b82f6 }
const colorOf = ({ kind, severity }: Message): number => (kind === 'resolved' ? 0x2e9e5b : colors[severity])

/**
 * Characters with a meaning in Discord's markdown: emphasis, code, spoilers, headings, quotes, lists, masked links,
 * mentions, times (`<t:…>`) and emoji codes. A backslash escapes each of them anywhere in a text.
 */
const markup = /[\\*_~`|>#\-+[\]()<:@]/g
const escaped = (text: string): string => text.replaceAll(markup, '\\$&')
const size: CharacterSize = (character) => escaped(character).length

/** Commands cannot contain a backtick, so they need no escaping in a code span. The link is on the title. */
function description(lines: MessageLines): string {
  const { done, commands } = lines
  const texts = [...alertLines(lines), ...(done === null ? [] : [done])].map(escaped)
  return [...texts, ...commands.map((command) => `${commandLabel}\`${command}\``)].join('\n')
}

/** https://discord.com/developers/docs/resources/webhook#execute-webhook */
export const discord: HttpChannel<'discord'> = {
  type: 'discord',
  destination: receiverHost,
  request(message, settings, sender) {
    const lines = messageLines(message, sender, { room, size })
    const url = receiverUrl(settings.url)
    // Without `wait`, Discord also responds with success if it does not store the message.
    url.searchParams.set('wait', 'true')
    const embed = {
      title: escaped(cutText(lines.headline, maxTitle, size)),
      ...(lines.link === null ? {} : { url: lines.link }),
      description: description(lines),
      color: colorOf(message),
      timestamp: isoTime(message.created_at),
    }
    return jsonPost(url.href, { content: '', embeds: [embed], allowed_mentions: { parse: [] } }, sender)
  },
  judge(answer) {
    const verdict = judgeByStatus(answer)
    const { id, retry_after } = answerFields(answer.body)
    if (!verdict.delivered) return { ...verdict, ...askedPause(retry_after) }
    return typeof id === 'string'
      ? verdict
      : refused(verdict, 'The response of the receiver does not contain the stored message.')
  },
}
