import type { HttpChannel } from './channel.ts'
import { answerFields, askedPause, jsonPost, judgeByStatus, refused } from './http-receiver.ts'
import { bodyLines, commandLabel, isQuiet, messageLines } from './message-lines.ts'

/** A text has at most 4,096 UTF-16 units; the rest is for headline, note and count. */
const room = 3_600

/**
 * https://core.telegram.org/bots/api#sendmessage. Without a parse mode nothing has to be escaped, but Telegram links
 * bare domains, mentions, hashtags and commands; it does not inside code, so each line with a text of unknown origin is
 * a code entity.
 */
export const telegram: HttpChannel<'telegram'> = {
  type: 'telegram',
  audience: 'people',
  confided: ['chat_id'],
  destination: () => 'api.telegram.org',
  request(message, { token, chat_id }, sender) {
    const lines = messageLines(message, sender, { room })
    const texts = [lines.headline, ...bodyLines(lines)]
    // Offsets and lengths are UTF-16 units, as those of strings here.
    const code: { type: 'code'; offset: number; length: number }[] = []
    let offset = 0
    for (const text of texts) {
      const isCommand = text.startsWith(commandLabel) && lines.commands.includes(text.slice(commandLabel.length))
      const label = isCommand ? commandLabel.length : 0
      // Texts of unknown origin, and commands, which a press then copies.
      if (isCommand || text === lines.done || lines.alerts.includes(text)) {
        code.push({ type: 'code', offset: offset + label, length: text.length - label })
      }
      offset += text.length + 1
    }
    const payload = {
      chat_id,
      text: texts.join('\n'),
      entities: [{ type: 'bold', offset: 0, length: lines.headline.length }, ...code],
      link_preview_options: { is_disabled: true },
      disable_notification: isQuiet(message),
    }
    return jsonPost(`https://api.telegram.org/bot${token}/sendMessage`, payload, sender)
  },
  judge(answer) {
    const verdict = judgeByStatus(answer)
    const { ok, parameters } = answerFields(answer.body)
    if (!verdict.delivered) {
      return { ...verdict, ...askedPause((parameters as { retry_after?: unknown } | undefined)?.retry_after) }
    }
    return ok === true ? verdict : refused(verdict, 'Telegram did not answer ok.')
  },
}
