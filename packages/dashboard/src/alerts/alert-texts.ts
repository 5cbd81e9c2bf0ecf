import { type AlertMatch, type AlertPreview, type MessageContent, severities } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import type { Alert, AlertCount, AlertDetail, Channel } from '../data/alerts.ts'
import { spanText } from '../ui/span.ts'

// Sentences of fixed words, counts and ids only. Untrusted texts are shown beside them, never inside.

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
  channels: readonly Channel[]
}

/** Returns the heading: the open alerts, and whether an empty queue means that all is well. */
export function queueSentence({ counts, isComplete, channels }: QueueFacts): string {
  const number = (chosen: Chosen) => countOf(counts, chosen)
  const open = number({ status: 'open' })
  const breaches = number({ status: 'open', severity: 'breach' })
  const critical = number({ status: 'open', severity: 'critical' })
  const acknowledged = number({ status: 'acknowledged' })
  // Without an enabled channel no alerts are created, so an empty queue proves nothing.
  if (open === 0 && channels.length === 0) return 'No alerts: no channel is set up'
  if (open === 0 && channels.every(({ enabled }) => !enabled)) return 'No alerts: all channels are disabled'
  const failing = channels.filter((channel) => stateOfChannel(channel) === 'failing').length
  return [
    open === 0 ? 'No open alerts' : `${isComplete ? '' : 'At least '}${counted(open, 'open alert')}`,
    ...(breaches > 0 ? [breaches === 1 ? '1 breach' : `${breaches.toLocaleString('en')} breaches`] : []),
    ...(breaches === 0 && critical > 0 ? [`${critical.toLocaleString('en')} critical`] : []),
    ...(open === 0 && acknowledged > 0 ? [`${acknowledged.toLocaleString('en')} acknowledged`] : []),
    ...(failing > 0 ? [`${counted(failing, 'channel')} failing`] : []),
  ].join(', ')
}

type Change = AlertDetail['history'][number]

/** Describes a change of an alert, without its actor and without texts written by people. */
export function changeText({ before, after, alerts }: Change): string {
  const did: string[] = []
  if (after.status !== before.status || after.verdict !== before.verdict) {
    const verdicts = { false_positive: ' as a false positive', true_positive: ' as a true positive' } as const
    const word = after.status === 'open' ? 'reopened' : (after.status ?? 'changed the state')
    did.push(`${word}${after.verdict === null ? '' : verdicts[after.verdict]}`)
  }
  if (after.assignee !== before.assignee)
    did.push(after.assignee === null ? 'removed the assignee' : 'changed the assignee')
  if (after.note !== before.note) did.push(after.note === null ? 'removed the note' : 'changed the note')
  const what = did.length === 0 ? 'changed nothing' : did.join(', ')
  return alerts > 1 ? `${what}, with ${counted(alerts - 1, 'other alert')}` : what
}

type Delivery = AlertDetail['deliveries'][number]

/** Describes the outcome of an alert at a channel. */
export function deliveryText({ outcome, state, attempts }: Delivery): string {
  const unsent: Partial<Record<Delivery['outcome'], string>> = {
    waiting: 'pending: waits for other alerts',
    joined: 'part of another message',
    silenced: 'suppressed by a silence',
    inhibited: 'suppressed: covered by another alert',
    dropped: 'not sent: the channel was deleted or disabled',
  }
  if (state === null) return unsent[outcome] ?? 'pending'
  const tried = counted(attempts, 'attempt')
  const together = outcome === 'joined' ? ', with other alerts' : ''
  if (state === 'delivered') return `delivered after ${tried}${together}`
  if (state === 'dead') return `failed after ${tried}${together}`
  return attempts === 0 ? `pending${together}` : `retrying after ${tried}${together}`
}

/** Describes a match in fixed words, types and id patterns. */
export function matchText({ severities: among, types, instances }: AlertMatch): string {
  const parts = [
    ...(among ? [`severity ${among.join(' or ')}`] : []),
    ...(types ? [`type ${types.join(' or ')}`] : []),
    ...(instances ? [`agent ${instances.join(' or ')}`] : []),
  ]
  return parts.length === 0 ? 'all alerts' : parts.join(', ')
}

const listOf = (text: string): string[] => text.split(/[\s,]+/).filter((part) => part !== '')

/** Reads the match of a form with the fields `severity`, `types` and `instances`: lists, separated by commas or spaces. */
export function matchOf(form: FormData): AlertMatch {
  const chosen = form.getAll('severity')
  const among = severities.filter((severity) => chosen.includes(severity))
  const types = listOf(String(form.get('types') ?? ''))
  const instances = listOf(String(form.get('instances') ?? ''))
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
  no_route: 'no matching route',
  never_alerted: 'session figures never create alerts',
}

/** Returns the state of a channel. A channel that has never delivered anything is not proven to work. */
export function stateOfChannel({ enabled, state, paused_until, last_delivered_at }: Channel) {
  if (!enabled) return 'disabled'
  if (state === 'failing' || paused_until !== null) return 'failing'
  return last_delivered_at === null ? 'untested' : 'working'
}

/** Describes the facts behind a channel's state. The receiver's own text is shown beside it. */
export function healthText(channel: Channel, now: number): string {
  const { enabled, paused_until, waiting, dead, behind, last_delivered_at } = channel
  if (!enabled) return 'Missed alerts are not sent later'
  const last =
    last_delivered_at === null
      ? 'No deliveries yet'
      : `Last delivery ${spanText(now - Date.parse(last_delivered_at))} ago`
  const facts = [
    ...(paused_until === null ? [] : [`next attempt in ${spanText(Date.parse(paused_until) - now)}`]),
    ...(waiting > 0 ? [`${waiting.toLocaleString('en')} pending`] : []),
    ...(behind > 0 ? [`${counted(behind, 'alert')} not processed yet`] : []),
    ...(dead > 0 ? [`${dead.toLocaleString('en')} failed`] : []),
  ]
  return [last, ...facts].join(', ')
}

/** Splits a body into lines. JSON gets one line per field; line breaks within its texts stay escaped. */
export function readableBody(content: Pick<MessageContent, 'body' | 'content_type' | 'cut'>): string[] {
  const { body, content_type, cut } = content
  if (cut || !content_type.includes('json')) return body.split('\n')
  try {
    return JSON.stringify(JSON.parse(body), null, 2).split('\n')
  } catch {
    return body.split('\n')
  }
}
