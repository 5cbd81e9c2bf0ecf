import type { Message, Severity } from '../message.ts'
import type { HttpChannel } from './channel.ts'
import { judgeByStatus, refused } from './http-verdict.ts'
import { jsonPost } from './json-post.ts'
import { bodyLines, messageLines } from './message-lines.ts'
import { receiverHost } from './receiver-url.ts'
import { unlinked } from './unlinked.ts'

/** Short enough for every chat behind it. */
const room = 3_000

const types: Record<Severity, string> = { breach: 'failure', critical: 'failure', warning: 'warning', info: 'info' }
const typeOf = ({ kind, severity }: Message): string => (kind === 'resolved' ? 'success' : types[severity])

/** https://github.com/caronc/apprise-api. What is behind it may link and mention, so texts hold neither a domain nor an @. */
export const apprise: HttpChannel<'apprise'> = {
  type: 'apprise',
  audience: 'people',
  destination: receiverHost,
  request(message, { url, tags }, sender) {
    const lines = messageLines(message, { room, change: unlinked })
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
    if (answer.status === 424) return refused(verdict, 'Apprise could not deliver to one of its services or more.')
    return verdict.delivered && answer.status !== 200
      ? refused(verdict, `The receiver answered ${answer.status}, not 200.`)
      : verdict
  },
}
