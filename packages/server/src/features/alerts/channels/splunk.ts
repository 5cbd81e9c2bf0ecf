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

/** Splunk cuts longer events by default (TRUNCATE of props.conf), and half a JSON object has no fields. */
const maxBytes = 10_000

/** A query, which may name a channel of the collector, stays. */
function eventUrl(given: string): string {
  const url = receiverUrl(given)
  if (!url.pathname.includes(collectorPath)) {
    url.pathname = `${url.pathname.replace(/\/+$/, '')}${collectorPath}/event`
  }
  return url.href
}

/** Splunk's HTTP Event Collector, one event a request. */
export const splunk: HttpChannel<'splunk'> = {
  type: 'splunk',
  audience: 'machines',
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

  /** Success is a 2xx with `{ "text": "Success", "code": 0 }`. Anything on the way may answer 200, but not with that. */
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
