import { cutText, utf16Size } from '@wardline/text'
import type { HttpChannel } from './channel.ts'
import { jsonPost, judgeByStatus, receiverHost, refused } from './http-receiver.ts'
import { commandLabel, messageLines, openLabel } from './message-lines.ts'

/** Limit of a header block. */
const maxHeader = 150
/** The documented limit of a text is 3,000 characters; rich text has no documented limit. */
const room = 2_700

/** Mentions and links need these characters: https://docs.slack.dev/messaging/formatting-message-text#escaping. */
const escaped = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')

const section = (text: string) => ({ type: 'rich_text_section', elements: [{ type: 'text', text }] })
const commandSection = (command: string) => ({
  type: 'rich_text_section',
  elements: [
    { type: 'text', text: commandLabel },
    { type: 'text', text: command, style: { code: true } },
  ],
})
const linkSection = (url: string) => ({ type: 'rich_text_section', elements: [{ type: 'link', url, text: openLabel }] })

/**
 * Slack's incoming webhooks. Events are in a rich text block: Slack shows its text elements literally, so no markup,
 * mention, emoji code or link needs to be escaped. The fallback text, which notifications show, is only the headline.
 */
export const slack: HttpChannel<'slack'> = {
  type: 'slack',
  destination: receiverHost,
  request(message, { url }, sender) {
    const lines = messageLines(message, sender, { room })
    const list = { type: 'rich_text_list', style: 'bullet', elements: lines.alerts.map(section) }
    const elements = [
      ...(lines.note === null ? [] : [section(lines.note)]),
      ...(lines.alerts.length === 0 ? [] : [list]),
      ...(lines.rest === null ? [] : [section(lines.rest)]),
      ...(lines.done === null ? [] : [section(lines.done)]),
      ...lines.commands.map(commandSection),
      ...(lines.link === null ? [] : [linkSection(lines.link)]),
    ]
    const payload = {
      text: escaped(lines.headline),
      blocks: [
        {
          type: 'header',
          text: { type: 'plain_text', text: cutText(lines.headline, maxHeader, utf16Size), emoji: false },
        },
        ...(elements.length === 0 ? [] : [{ type: 'rich_text', elements }]),
      ],
      unfurl_links: false,
      unfurl_media: false,
    }
    return jsonPost(url, payload, sender)
  },
  judge(answer) {
    const verdict = judgeByStatus(answer)
    // A login page in between also responds with 200, and so do gateways that imitate Slack.
    return verdict.delivered && (answer.status !== 200 || answer.body.trim() !== 'ok')
      ? refused(verdict, 'The response of the receiver is not ok.')
      : verdict
  },
}
