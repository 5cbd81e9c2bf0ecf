import type { HttpChannel } from './channel.ts'
import {
  answerFields,
  judgeByStatus,
  receiverHost,
  receiverUrl,
  refused,
  reporterName,
  userAgent,
} from './http-receiver.ts'
import { happenedAt, writeBounded } from './machine-row.ts'
import { plainText } from './plain-text.ts'

const collectorPath = '/services/collector'

/** By default Splunk cuts longer events (TRUNCATE in props.conf), and a cut JSON object has no fields. */
const maxBytes = 10_000

/** Adds the collector's path if it is missing. The query is kept, because it may name a channel of the collector. */
function eventUrl(given: string): string {
  const url = receiverUrl(given)
  if (!url.pathname.includes(collectorPath)) {
    url.pathname = `${url.pathname.replace(/\/+$/, '')}${collectorPath}/event`
  }
  return url.href
}

/** Splunk's HTTP Event Collector, one event per request. */
export const splunk: HttpChannel<'splunk'> = {
  type: 'splunk',
  confided: ['index'],
  destination: receiverHost,

  request(message, { url, token, index }, sender) {
    return {
      url: eventUrl(url),
      headers: {
        authorization: `Splunk ${token}`,
        'content-type': 'application/json',
        'user-agent': userAgent(sender),
      },
      body: writeBounded(message, sender, maxBytes, (event) =>
        JSON.stringify({
          time: happenedAt(message) / 1_000,
          host: reporterName(sender),
          source: 'wardline',
          sourcetype: 'wardline:alert',
          index,
          event,
        }),
      ),
    }
  },

  /** Success is a 2xx with `{ "text": "Success", "code": 0 }`; a 200 of a proxy in between does not have this code. */
  judge(answer) {
    const verdict = judgeByStatus(answer)
    const { code, text } = answerFields(answer.body)
    if (typeof code === 'number' && code !== 0) {
      return refused(verdict, `Splunk answered with code ${code} (${plainText(String(text), 200)}).`)
    }
    return verdict.delivered && code !== 0
      ? refused(verdict, `The receiver answered ${answer.status} without the code 0 of an HTTP Event Collector.`)
      : verdict
  },
}
