import type { Severity } from '@wardline/contract'
import type { HttpChannel } from './channel.ts'
import { jsonPost, judgeByStatus, receiverHost, refused } from './http-receiver.ts'
import type { Message } from './message.ts'
import { bodyLines, messageLines, openOf } from './message-lines.ts'
import { unlinked } from './plain-text.ts'

/** With note and count, the body stays below 4,096 characters: the limit of Telegram, to which Apprise may forward. */
const room = 3_000

const types: Record<Severity, string> = { breach: 'failure', critical: 'failure', warning: 'warning', info: 'info' }
const typeOf = (message: Message): string => {
  if (message.kind !== 'resolved') return types[message.severity]
  return openOf(message) ? 'warning' : 'success'
}

/**
 * https://github.com/caronc/apprise-api. Services behind Apprise may turn domains into links and names into mentions,
 * so texts contain neither a domain nor an @ that works as one.
 */
export const apprise: HttpChannel<'apprise'> = {
  type: 'apprise',
  confided: ['tag'],
  destination: receiverHost,
  request(message, { url, tags }, sender) {
    const lines = messageLines(message, sender, { room, change: unlinked })
    const payload = {
      title: lines.headline,
      body: bodyLines(lines).join('\n'),
      type: typeOf(message),
      format: 'text',
      ...(tags === undefined ? {} : { tag: tags }),
    }
    return jsonPost(url, payload, sender, { accept: 'application/json' })
  },
  judge(answer) {
    const verdict = judgeByStatus(answer)
    if (answer.status === 204) return refused(verdict, 'Apprise has no service stored under this key.')
    if (answer.status === 424) return refused(verdict, 'Apprise could not deliver to one or more of its services.')
    return verdict.delivered && answer.status !== 200
      ? refused(verdict, `The receiver answered ${answer.status}, not 200.`)
      : verdict
  },
}
