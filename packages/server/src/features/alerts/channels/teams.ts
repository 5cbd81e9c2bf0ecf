import type { CharacterSize } from '@wardline/text'
import type { HttpChannel } from './channel.ts'
import { jsonPost, judgeByStatus, receiverHost, refused } from './http-receiver.ts'
import { alertLines, messageLines, openLabel } from './message-lines.ts'

/** A message may have 28 KB. Should Teams count it in UTF-16, ASCII takes twice the bytes, so half is left free. */
const room = 10_000
const size: CharacterSize = (character) => Buffer.byteLength(JSON.stringify(character)) - 2

/** Renderers evaluate `{{DATE(…)}}` and `{{TIME(…)}}` in any text, so an event could show a false time. */
const withoutFunctions = (text: string): string => text.replaceAll(/\{(?=\{)/g, '{ ')

/** A line of rich text in an Adaptive Card. Unlike a TextBlock, a TextRun does not support markdown. */
const line = (text: string, look: object = {}) => ({
  type: 'RichTextBlock',
  spacing: 'Small',
  inlines: [{ type: 'TextRun', text, ...look }],
})

/** Sends an Adaptive Card 1.4 to a Teams workflow that starts "when a Teams webhook request is received". */
export const teams: HttpChannel<'teams'> = {
  type: 'teams',
  destination: receiverHost,
  request(message, { url }, sender) {
    const lines = messageLines(message, sender, { room, size, change: withoutFunctions })
    const content = {
      $schema: 'http://adaptivecards.io/schemas/adaptive-card.json',
      type: 'AdaptiveCard',
      version: '1.4',
      fallbackText: lines.headline,
      msteams: { width: 'Full' },
      body: [
        line(lines.headline, { size: 'Medium', weight: 'Bolder' }),
        ...alertLines(lines).map((text) => line(text)),
        ...(lines.done === null ? [] : [line(lines.done)]),
        ...lines.commands.map((command) => line(command, { fontType: 'Monospace' })),
      ],
      ...(lines.link === null
        ? {}
        : { actions: [{ type: 'Action.OpenUrl', title: openLabel, url: withoutFunctions(lines.link) }] }),
    }
    const attachment = { contentType: 'application/vnd.microsoft.card.adaptive', contentUrl: null, content }
    return jsonPost(url, { type: 'message', attachments: [attachment] }, sender)
  },
  judge(answer) {
    const verdict = judgeByStatus(answer)
    // 202 means that the workflow started; its result is unknown. A login page in between also responds with 200.
    const isPage = answer.headers['content-type']?.startsWith('text/html') === true
    return verdict.delivered && (isPage || (answer.status !== 200 && answer.status !== 202))
      ? refused(verdict, 'The response of the receiver is not from a Workflow.')
      : verdict
  },
}
