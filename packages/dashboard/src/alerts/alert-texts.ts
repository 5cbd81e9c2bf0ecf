import { type AlertMatch, type AlertPreview, severities } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { sentenceOf as reportSentence } from '../overview/attention.ts'
import { spanText } from '../parts/span.ts'
import type { Alert, AlertCount, AlertDetail, Channel } from '../service/alerts.ts'

// Sentences of fixed words, counts and ids only. Untrusted texts are shown beside them, never inside.

type AlertFacts = Pick<Alert, 'event_type' | 'by_service' | 'source' | 'instance_id'>

/** Describes an alert's subject in one sentence. */
export function headlineOf(alert: AlertFacts): string {
  const who = alert.instance_id ?? 'An unnamed agent'
  const own: Record<string, string> = {
    instance_suspended: `${who} was suspended`,
    instance_resumed: `${who} was resumed`,
    kill_confirmed: `${who} confirmed its suspension`,
    kill_unconfirmed: `${who} has not confirmed its suspension`,
    instance_offline: `${who} is silent`,
    instance_recovered: `${who} is back`,
    instance_clone: `Two agents use the id ${who}`,
    instance_crash_loop: `${who} restarts again and again`,
    instance_blind: `${who} reports nothing any more`,
    drill_overdue: `${who} does not answer drills`,
    drill_answered: `${who} answers drills again`,
    drills_overdue: 'Many agents do not answer drills',
    drills_answered: 'The agents that did not answer drills do again',
    instance_reporting: `${who} reports again`,
    brake_engaged: 'Nothing is suspended automatically until an operator releases the brake',
    brake_released: 'The brake of automatic suspensions was released',
    suspension_skipped: 'A breach suspended nobody',
    enforcement_failed: `An enforcement point did not confirm for ${who}`,
    decoy_connections_dropped: 'The port of decoy URLs is flooded',
    chain_transaction_failed: 'A transaction on the chain was given up',
    chain_transaction_stuck: 'A transaction on the chain is unconfirmed for an hour',
    chain_nonce_refused: 'The node counts transactions that this service did not send',
    chain_unavailable: 'Nothing can be sent to the chain',
    fleet_outage: 'Many agents fell silent together',
    fleet_recovered: 'The agents that fell silent together are back',
    alert_channel_failing: 'Alerts do not reach a channel',
    alert_channel_recovered: 'Alerts reach every channel again',
    alerts_summarized: 'More was reported than is listed one by one',
    alerting_changed: 'The receivers of alerts were changed',
    protection_changed: 'Protection was reduced',
  }
  return (alert.by_service ? own[alert.event_type] : undefined) ?? reportSentence(alert, who)
}

export const statusNames = { open: 'Open', acknowledged: 'Acknowledged', resolved: 'Resolved' } as const

/** Describes the state, such as `Resolved as a false positive`. */
export function stateText({ status, verdict }: Pick<Alert, 'status' | 'verdict'>): string {
  if (verdict === 'false_positive') return 'Resolved as a false positive'
  if (verdict === 'true_positive') return 'Resolved as a true positive'
  return statusNames[status]
}

interface Chosen {
  status?: Alert['status'] | undefined
  severity?: Alert['severity'] | undefined
}

/** Whether the queue shows alerts of this severity by default. Alerts of severity info would bury the others. */
const isInQueue = (severity: Alert['severity']): boolean => severity !== 'info'

/** Counts the alerts that match the chosen status and severity. */
export function countOf(counts: readonly AlertCount[], { status, severity }: Chosen): number {
  return counts
    .filter((each) => status === undefined || each.status === status)
    .filter((each) => (severity === undefined ? isInQueue(each.severity) : each.severity === severity))
    .reduce((sum, { count }) => sum + count, 0)
}

interface QueueFacts {
  counts: readonly AlertCount[]
  isComplete: boolean
  channels: readonly Channel[] | undefined
}

/** Returns the heading: the open alerts, and whether an empty queue means that all is well. */
export function queueSentence({ counts, isComplete, channels }: QueueFacts): string {
  const open = countOf(counts, { status: 'open' })
  const breaches = countOf(counts, { status: 'open', severity: 'breach' })
  const critical = countOf(counts, { status: 'open', severity: 'critical' })
  const acknowledged = countOf(counts, { status: 'acknowledged' })
  // Without an enabled channel no alerts are created, so an empty queue proves nothing.
  if (channels?.length === 0 && open === 0) return 'No alerts: no channel is set up.'
  if (channels && channels.length > 0 && channels.every(({ enabled }) => !enabled) && open === 0)
    return 'No alerts: every channel is disabled.'
  const failing = channels?.filter((channel) => stateOfChannel(channel) === 'failing').length ?? 0
  const lost = failing > 0 ? ` ${counted(failing, 'channel')} cannot be reached.` : ''
  if (open === 0)
    return `No alert is open${acknowledged > 0 ? `, ${acknowledged.toLocaleString('en')} acknowledged` : ''}.${lost}`
  const worst =
    breaches > 0
      ? `, ${breaches === 1 ? '1 breach' : `${breaches.toLocaleString('en')} breaches`} among them`
      : critical > 0
        ? `, ${critical.toLocaleString('en')} critical`
        : ''
  return `${isComplete ? '' : 'At least '}${counted(open, 'alert')} ${open === 1 ? 'is' : 'are'} open${worst}.${lost}`
}

export const staleSentence = (ageMs: number): string => `No answer from the service for ${spanText(ageMs)}.`

type Change = AlertDetail['history'][number]

/** Describes a change of an alert, without its actor and without texts written by people. */
export function changeText({ before, after, alerts }: Change): string {
  const did: string[] = []
  if (after.status !== before.status || after.verdict !== before.verdict) {
    const words = { open: 'reopened it', acknowledged: 'acknowledged it', resolved: 'resolved it' } as const
    const word = after.status === null ? 'changed its state' : words[after.status]
    const verdicts = { false_positive: ' as a false positive', true_positive: ' as a true positive' } as const
    did.push(`${word}${after.verdict === null ? '' : verdicts[after.verdict]}`)
  }
  if (after.assignee !== before.assignee)
    did.push(after.assignee === null ? 'took it from its assignee' : 'assigned it')
  if (after.note !== before.note) did.push(after.note === null ? 'removed the note' : 'left a note')
  const what = did.length === 0 ? 'changed nothing' : did.join(', ')
  return alerts > 1 ? `${what}, together with ${counted(alerts - 1, 'other alert')}` : what
}

type Delivery = AlertDetail['deliveries'][number]

/** Describes the outcome of an alert at a channel. */
export function deliveryText({ outcome, state, attempts }: Delivery): string {
  const unsent: Partial<Record<Delivery['outcome'], string>> = {
    waiting: 'waits to be sent together with others',
    joined: 'joined another message',
    silenced: 'suppressed by a silence',
    inhibited: 'not sent: another alert says the same',
    dropped: 'never sent: the channel was deleted or disabled',
  }
  if (state === null) return unsent[outcome] ?? 'not sent yet'
  const tried = counted(attempts, 'attempt')
  const together = outcome === 'joined' ? ', together with others' : ''
  if (state === 'delivered') return `delivered after ${tried}${together}`
  if (state === 'dead') return `given up after ${tried}${together}`
  return attempts === 0 ? `on its way${together}` : `not delivered yet, ${tried}${together}`
}

/** Describes a match in fixed words, types and id patterns. */
export function matchText({ severities: among, types, instances }: AlertMatch): string {
  const parts = [
    ...(among ? [`severity ${among.join(' or ')}`] : []),
    ...(types ? [`type ${types.join(' or ')}`] : []),
    ...(instances ? [`agent ${instances.join(' or ')}`] : []),
  ]
  return parts.length === 0 ? 'Every alert' : `Alerts of ${parts.join(', ')}`
}

const listOf = (text: string): string[] => text.split(/[\s,]+/).filter((part) => part !== '')

/** Parses a typed list, separated by commas or spaces. */
export function matchOf(form: { severities: readonly string[]; types: string; instances: string }): AlertMatch {
  const among = severities.filter((severity) => form.severities.includes(severity))
  const types = listOf(form.types)
  const instances = listOf(form.instances)
  return {
    ...(among.length > 0 ? { severities: among } : {}),
    ...(types.length > 0 ? { types } : {}),
    ...(instances.length > 0 ? { instances } : {}),
  }
}

export const previewWords: Record<AlertPreview['channels'][number]['outcome'], string> = {
  receives: 'receives it',
  silenced: 'suppressed by a silence',
  disabled: 'disabled',
  below_severity: 'below its minimum severity',
  no_route: 'no route to it matches',
  never_alerted: 'never alerted: figures of a session are no alert',
}

/** Returns the state of a channel. A channel that has never delivered anything is not proven to work. */
export function stateOfChannel({ enabled, state, paused_until, last_delivered_at }: Channel) {
  if (!enabled) return 'disabled'
  if (state === 'failing' || paused_until !== null) return 'failing'
  return last_delivered_at === null ? 'not proven' : 'works'
}

/** Describes the facts behind a channel's state. The receiver's own text is shown beside it. */
export function healthText(channel: Channel, now: number): string {
  const { enabled, paused_until, waiting, dead, behind, last_delivered_at } = channel
  if (!enabled) return 'It receives nothing, and nothing later of this time'
  const last =
    last_delivered_at === null
      ? 'Nothing delivered yet'
      : `Last delivered ${spanText(now - Date.parse(last_delivered_at))} ago`
  const facts = [
    ...(paused_until === null ? [] : [`next attempt in ${spanText(Date.parse(paused_until) - now)}`]),
    ...(waiting > 0 ? [`${waiting.toLocaleString('en')} waiting`] : []),
    ...(behind > 0 ? [`${behind.toLocaleString('en')} not planned yet`] : []),
    ...(dead > 0 ? [`${dead.toLocaleString('en')} given up`] : []),
  ]
  return [last, ...facts].join(', ')
}
