import type { Alert, AlertDetail, ChannelView } from '@wardline/contract'
import { severityText } from './event-text.ts'
import { plainText } from './terminal-text.ts'
import { textTable } from './text-table.ts'

const withoutFraction = (time: string): string => plainText(time).replace(/\.\d+Z$/, 'Z')

/** An alert as one line: when, how bad, whether somebody cares, its id, who, what. */
export function alertLine({ id, created_at, severity, status, instance_id, source, ...alert }: Alert): string {
  const what = [id, instance_id ?? source, alert.event_type, alert.description].map(plainText).join('  ')
  return `${withoutFraction(created_at)}  ${severityText(severity, 8)}  ${plainText(status).padEnd(12)}  ${what}`
}

type Delivery = AlertDetail['deliveries'][number]

/** What became of the message, and what the receiver said to it. */
function fateOf({ outcome, state, attempts, last_status, last_answer, last_error, delivered_at }: Delivery): string[] {
  if (state === null) return [outcome, '', '']
  const tries = attempts === 1 ? '1 try' : `${attempts} tries`
  const fates = { delivered: `delivered ${delivered_at ?? ''}`, pending: 'on its way', dead: 'given up' }
  const said = [last_status === null ? '' : String(last_status), last_answer ?? '', last_error ?? '']
  return [outcome, `${fates[state]}, ${tries}`, said.filter((part) => part !== '').join(' ')]
}

/** One alert with what became of it; channels that are gone are shown by their id. */
export function alertText(alert: AlertDetail, channels: readonly Pick<ChannelView, 'id' | 'name'>[]): string {
  const names = new Map(channels.map(({ id, name }) => [id, name]))
  const verdict = alert.verdict === null ? '' : `, ${alert.verdict.replace('_', ' ')}`
  const rows: [string, string | null][] = [
    ['Id', alert.id],
    ['Time', alert.created_at],
    ['Severity', alert.severity],
    ['Type', alert.event_type],
    ['Instance', alert.instance_id],
    ['Session', alert.session_id],
    ['Source', alert.source],
    ['Says', alert.description],
    ['Status', `${alert.status}${verdict}${alert.changed_at === null ? '' : ` since ${alert.changed_at}`}`],
    ['Assignee', alert.assignee],
    ['Note', alert.note],
  ]
  const facts = textTable(rows.flatMap(([name, value]) => (value === null ? [] : [[name, plainText(value)]])))
  const fates = alert.deliveries.map((delivery) =>
    [names.get(delivery.channel_id) ?? delivery.channel_id, ...fateOf(delivery)].map(plainText),
  )
  return `${facts}\n\n${fates.length > 0 ? textTable(fates) : 'No channel has looked at it yet, or none takes it any more.'}`
}
