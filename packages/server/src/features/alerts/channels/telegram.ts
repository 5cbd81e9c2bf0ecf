import type { HttpChannel } from './channel.ts'
import { judgeByStatus, refused } from './http-verdict.ts'
import { answerFields, askedPause } from './json-answer.ts'
import { jsonPost } from './json-post.ts'
import { bodyLines, isQuiet, messageLines } from './message-lines.ts'

/** A text has at most 4,096 UTF-16 units; the rest is for headline, note and count. */
const room = 3_600

/**
 * https://core.telegram.org/bots/api#sendmessage. Without a parse mode nothing has to be escaped, but Telegram links bare
 * domains, mentions, hashtags and commands by itself; it does not inside code, so each alert's line is a code entity.
 */
export const telegram: HttpChannel<'telegram'> = {
  type: 'telegram',
  audience: 'people',
  destination: () => 'api.telegram.org',
  request(message, { token, chat_id }, sender) {
    const lines = messageLines(message, { room })
    const texts = [lines.headline, ...bodyLines(lines)]
    const firstAlert = lines.note === null ? 1 : 2
    // Offsets and lengths are UTF-16 units, as those of strings here.
    const code = lines.alerts.map(({ length }, index) => ({
      type: 'code',
      offset: texts.slice(0, firstAlert + index).join('\n').length + 1,
      length,
    }))
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
