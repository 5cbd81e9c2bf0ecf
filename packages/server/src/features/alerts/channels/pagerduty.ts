import { createHash } from 'node:crypto'
import type { Severity } from '@wardline/contract'
import { isoTime } from '../../../clock.ts'
import type { HttpChannel, Sender } from './channel.ts'
import { jsonPost, judgeByStatus, refused, reporterName } from './http-receiver.ts'
import { rowOf } from './machine-row.ts'
import type { DeliveredAlert, Message } from './message.ts'
import { decoyText, doneText, openLabel } from './message-lines.ts'
import { dashboardLink, nextCommands } from './next-commands.ts'
import { plainText, unlinked } from './plain-text.ts'

const hosts = { us: 'events.pagerduty.com', eu: 'events.eu.pagerduty.com' } as const
const severities = { info: 'info', warning: 'warning', critical: 'critical', breach: 'critical' } as const
const maxSummaryCharacters = 1_024
const maxKeyCharacters = 255

/**
 * Returns an alert under the field names of a stored event, without metadata and fields that are null. PagerDuty
 * forwards the texts as mail, where host names become links, so they are changed by `unlinked`. `ip_address` is not
 * changed, so that rules in PagerDuty can match it.
 */
function detailOf(alert: DeliveredAlert): Record<string, string> {
  const decoys = alert.decoys.map(decoyText)
  const named = {
    instance_name: alert.instance_name,
    tool: alert.tool,
    decoys: decoys.length > 0 ? decoys.join(', ') : null,
    key: alert.key?.name ?? null,
  }
  const pairs = Object.entries({ ...rowOf(alert), ...named }).flatMap(([name, value]) => {
    if (typeof value === 'object') return []
    const text = plainText(String(value))
    return [[name, name.endsWith('ip_address') ? text : unlinked(text)]]
  })
  return Object.fromEntries(pairs)
}

/**
 * A problem of a deployment is one incident, which is triggered, repeated and resolved by the same key. A key that is
 * too long is hashed and not cut, because two problems may differ only at the end.
 */
function incidentKey({ id, group }: Message, sender: Sender): string {
  if (group === null) return id
  const key = `${reporterName(sender)} ${group}`
  return key.length <= maxKeyCharacters ? key : createHash('sha256').update(key).digest('hex')
}

function summaryOf(message: Message, sender: Sender) {
  return {
    summary: plainText(message.title, maxSummaryCharacters),
    source: reporterName(sender),
    timestamp: isoTime((message.alerts.at(-1) ?? message).created_at),
  }
}

function trigger(message: Message, sender: Sender) {
  // A message without a group is about several problems, so it has no single type and instance.
  const newest = message.group === null ? undefined : message.alerts.at(-1)
  const done = doneText(message)
  const link = dashboardLink(message, sender.publicUrl)
  const severity: Severity = message.kind === 'test' ? 'info' : message.severity
  return {
    event_action: 'trigger',
    dedup_key: incidentKey(message, sender),
    payload: {
      ...summaryOf(message, sender),
      severity: severities[severity],
      component: newest?.instance_id ?? undefined,
      group: message.group ?? undefined,
      class: newest?.event_type,
      custom_details: {
        alerts: message.alerts.map(detailOf),
        more: message.more,
        ...(done === null ? {} : { done: unlinked(done) }),
        next: nextCommands(message),
      },
    },
    ...(link === null ? {} : { client: 'Wardline', client_url: link, links: [{ href: link, text: openLabel }] }),
  }
}

/**
 * Returns the path below /v2 and the body. The daily check is a change event, which notifies no one. A test triggers a
 * real incident, because the operator wants to see one.
 */
function eventOf(message: Message, sender: Sender): [path: string, event: object] {
  if (message.kind === 'check') return ['/change/enqueue', { payload: summaryOf(message, sender) }]
  if (message.kind !== 'resolved') return ['/enqueue', trigger(message, sender)]
  return ['/enqueue', { event_action: 'resolve', dedup_key: incidentKey(message, sender) }]
}

/** PagerDuty Events API v2. Its limit is 512 KB per body; ten alerts without metadata take less than 150 KB. */
export const pagerduty: HttpChannel<'pagerduty'> = {
  type: 'pagerduty',
  confided: ['routing_key'],
  destination: ({ region = 'us' }) => hosts[region],

  request(message, { routing_key, region = 'us' }, sender) {
    const [path, event] = eventOf(message, sender)
    return jsonPost(`https://${hosts[region]}/v2${path}`, { routing_key, ...event }, sender)
  },

  /** PagerDuty only responds with 202 to an accepted event. Any other 2xx comes from a proxy in between. */
  judge(answer) {
    const verdict = judgeByStatus(answer)
    return verdict.delivered && answer.status !== 202
      ? refused(verdict, `The receiver answered ${answer.status}, where PagerDuty answers 202.`)
      : verdict
  },
}
