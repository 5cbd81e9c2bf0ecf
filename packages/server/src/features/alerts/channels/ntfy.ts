import type { Severity } from '@wardline/contract'
import { type CharacterSize, utf8Size } from '@wardline/text'
import type { HttpChannel, Sender } from './channel.ts'
import { answerFields, jsonPost, judgeByStatus, receiverHost, receiverUrl, refused } from './http-receiver.ts'
import type { Message } from './message.ts'
import { bodyLines, decisionLabels, isQuiet, isStopped, messageLines, openOf, titleText } from './message-lines.ts'
import { publicAddress } from './next-commands.ts'
import { unlinked } from './plain-text.ts'

/** ntfy turns a message of more than 4,096 bytes into an attachment; the rest is for note and count. */
const room = 3_800
const size: CharacterSize = utf8Size

const priorities: Record<Severity, number> = { breach: 5, critical: 4, warning: 3, info: 2 }
/** Priority 2 makes no sound. A test makes a sound, as an alert does, although its severity is info. */
function priorityOf(message: Message): number {
  if (isQuiet(message)) return 2
  return message.kind === 'test' ? 3 : priorities[message.severity]
}

/** Names of emoji that ntfy shows in front of the title: https://docs.ntfy.sh/emojis/. */
const tags: Record<Severity, string> = {
  breach: 'rotating_light',
  critical: 'red_circle',
  warning: 'warning',
  info: 'information_source',
}

/**
 * https://docs.ntfy.sh/publish/#send-http-request. The apps send the request; the notification disappears once it
 * succeeded. In a browser it fails, because the service answers to no page of another origin.
 */
const actionsOf = ({ buttons, publicUrl }: Sender): object[] =>
  !buttons || publicUrl === undefined
    ? []
    : (['approve', 'deny'] as const).map((decision) => ({
        action: 'http',
        label: decisionLabels[decision],
        url: publicAddress(publicUrl, `/api/approvals/${buttons.approvalId}/press`).href,
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ channel_id: buttons.channelId, decision, token: buttons.tokenOf(decision) }),
        clear: true,
      }))

/**
 * https://docs.ntfy.sh/publish/#publish-as-json: a POST to the server's root with everything in the body, so that no
 * text gets into a header. The apps turn bare domains into links, so texts are changed by `unlinked`.
 */
export const ntfy: HttpChannel<'ntfy'> = {
  type: 'ntfy',
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
      tags: [
        message.kind !== 'resolved'
          ? tags[message.severity]
          : openOf(message) === null
            ? 'white_check_mark'
            : isStopped(message)
              ? 'octagonal_sign'
              : tags.warning,
      ],
      ...(lines.link === null ? {} : { click: lines.link }),
      ...(lines.asked === null ? {} : { actions: actionsOf(sender) }),
    }
    const access: Record<string, string> =
      settings.token === undefined ? {} : { authorization: `Bearer ${settings.token}` }
    return jsonPost(url.href, payload, sender, access)
  },
  judge(answer) {
    const verdict = judgeByStatus(answer)
    const { id } = answerFields(answer.body)
    return verdict.delivered && typeof id !== 'string'
      ? refused(verdict, 'The response of the receiver is not from ntfy.')
      : verdict
  },
}
