import { alertTypes, type Severity } from '@wardline/contract'
import { type CharacterSize, cutText } from '@wardline/text'
import { hourMs, isoTime } from '../../../clock.ts'
import { isOfKillSwitch } from '../outbox/alert.ts'
import type { HttpChannel, Sender } from './channel.ts'
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
import { alertLines, commandLabel, type MessageLines, messageLines, openOf } from './message-lines.ts'

/** Limits of an embed: 256 characters of title, 4,096 of description. */
const maxTitle = 256
const room = 3_800
const maxTogether = 6_000

const colors: Record<Severity, number> = { breach: 0x8e1b3a, critical: 0xd92d20, warning: 0xf5a623, info: 0x3b82f6 }
const colorOf = (message: Message): number => {
  if (message.kind !== 'resolved') return colors[message.severity]
  return openOf(message) ? colors.warning : 0x2e9e5b
}

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

function embed(message: Message, sender: Sender) {
  const lines = messageLines(message, sender, { room, size })
  return {
    title: escaped(cutText(lines.headline, maxTitle, size)),
    ...(lines.link === null ? {} : { url: lines.link }),
    description: description(lines),
    color: colorOf(message),
    timestamp: isoTime(message.created_at),
  }
}

/** After this time people no longer look at a message, and an edit calls no one. */
const editedWithinMs = hourMs

/** Whether the message only says how an incident goes on, so that no one has to be called. */
const isProgress = ({ kind, alerts }: Message): boolean =>
  kind === 'resolved' ||
  alerts.every(
    (alert) =>
      isOfKillSwitch({ ...alert, by_service: alert.by_service ? 1 : 0 }) &&
      alert.event_type !== alertTypes.killUnconfirmed,
  )

/** The embeds of the first message of an incident with this one below it; undefined if people need a message. */
function edited(message: Message, sender: Sender) {
  const { thread } = sender
  if (thread === undefined || !isProgress(message)) return undefined
  if (message.created_at - thread.first.created_at > editedWithinMs) return undefined
  const embeds = [embed(thread.first, sender), embed(message, sender)]
  const size = embeds.reduce((sum, { title, description }) => sum + title.length + description.length, 0)
  return size <= maxTogether ? { reference: thread.reference, embeds } : undefined
}

/**
 * https://discord.com/developers/docs/resources/webhook#execute-webhook. A webhook cannot answer a message, but edit its
 * own: how an incident goes on stands below its first message. All embeds of a message share 6,000 characters.
 */
export const discord: HttpChannel<'discord'> = {
  type: 'discord',
  destination: receiverHost,
  request(message, settings, sender) {
    const url = receiverUrl(settings.url)
    const edit = edited(message, sender)
    if (edit !== undefined) {
      url.pathname = `${url.pathname.replace(/\/$/, '')}/messages/${edit.reference}`
      const { embeds } = edit
      return {
        ...jsonPost(url.href, { content: '', embeds, allowed_mentions: { parse: [] } }, sender),
        method: 'PATCH',
      }
    }
    // Without `wait`, Discord also responds with success if it does not store the message.
    url.searchParams.set('wait', 'true')
    return jsonPost(
      url.href,
      { content: '', embeds: [embed(message, sender)], allowed_mentions: { parse: [] } },
      sender,
    )
  },
  judge(answer) {
    const verdict = judgeByStatus(answer)
    const { id, retry_after } = answerFields(answer.body)
    if (!verdict.delivered) return { ...verdict, ...askedPause(retry_after) }
    if (typeof id !== 'string')
      return refused(verdict, 'The response of the receiver does not contain the stored message.')
    return /^\d{1,20}$/.test(id) ? { ...verdict, reference: id } : verdict
  },
}
