import type { Buttons, HttpChannel } from './channel.ts'
import { answerFields, askedPause, jsonPost, judgeByStatus, refused } from './http-receiver.ts'
import { bodyLines, commandLabel, decisionLabels, isQuiet, messageLines } from './message-lines.ts'
import { callbackData } from './press-token.ts'

/** The limit of a text is 4,096 UTF-16 units; the rest is for headline, note and count. */
const room = 3_600

/** Presses come back as callback queries, see `TelegramPresses`. */
const keyboardOf = ({ approvalId, tokenOf }: Buttons) => ({
  inline_keyboard: [
    (['approve', 'deny'] as const).map((decision) => ({
      text: decisionLabels[decision],
      callback_data: callbackData({ approvalId, decision }, tokenOf(decision)),
    })),
  ],
})

/**
 * https://core.telegram.org/bots/api#sendmessage. Without a parse mode nothing needs to be escaped, but Telegram turns
 * bare domains, mentions, hashtags and commands into links. It does not do so inside code, so each line with a text of
 * unknown origin is a code entity.
 */
export const telegram: HttpChannel<'telegram'> = {
  type: 'telegram',
  confided: ['chat_id'],
  destination: () => 'api.telegram.org',
  request(message, { token, chat_id }, sender) {
    const lines = messageLines(message, sender, { room })
    const texts = [lines.headline, ...bodyLines(lines)]
    // Telegram counts offsets and lengths in UTF-16 units, as JavaScript strings do.
    const code: { type: 'code'; offset: number; length: number }[] = []
    let offset = 0
    for (const text of texts) {
      const isCommand = text.startsWith(commandLabel) && lines.commands.includes(text.slice(commandLabel.length))
      const label = isCommand ? commandLabel.length : 0
      // Lines with texts of unknown origin, and commands: a tap on code copies it.
      if (isCommand || text === lines.done || text === lines.asked || lines.alerts.includes(text)) {
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
      ...(sender.buttons ? { reply_markup: keyboardOf(sender.buttons) } : {}),
      ...(sender.thread === undefined
        ? {}
        : {
            reply_parameters: {
              message_id: Number(sender.thread.reference),
              // The first message may have been deleted.
              allow_sending_without_reply: true,
            },
          }),
    }
    return jsonPost(`https://api.telegram.org/bot${token}/sendMessage`, payload, sender)
  },
  judge(answer) {
    const verdict = judgeByStatus(answer)
    const { ok, parameters, result } = answerFields(answer.body)
    if (!verdict.delivered) {
      return { ...verdict, ...askedPause((parameters as { retry_after?: unknown } | undefined)?.retry_after) }
    }
    const id = (result as { message_id?: unknown } | undefined)?.message_id
    if (ok === true) return Number.isSafeInteger(id) ? { ...verdict, reference: String(id) } : verdict
    return refused(verdict, 'The response of Telegram is not ok.')
  },
}
