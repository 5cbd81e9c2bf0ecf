import { type AlertMatch, type AlertPreview, type MessageContent, parsedJson, severities } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import type { Alert, AlertCount, AlertDetail, Channel } from '../data/alerts.ts'
import { spanText } from '../ui/span.ts'

// Sentences of fixed words, counts and ids only. Untrusted texts are shown beside them, never inside.

export const statusNames = { open: 'Open', acknowledged: 'Acknowledged', resolved: 'Resolved' } as const

/** Describes the state, such as `Resolved as a false positive`. */
export function stateText({ status, verdict }: Pick<Alert, 'status' | 'verdict'>): string {
  return `${statusNames[status]}${verdictText(verdict)}`
}

const verdictText = (verdict: Alert['verdict']) => (verdict === null ? '' : ` as a ${verdict.replace('_', ' ')}`)

/** Joins the parts that apply. */
const listText = (...parts: (string | false)[]): string =>
  parts.filter((part) => part !== false && part !== '').join(', ')

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
  /** Undefined for callers limited to a team, who see none. */
  channels: readonly Channel[] | undefined
}

/** Returns the heading: the open alerts, and whether there is a channel that sends them. */
export function queueSentence({ counts, isComplete, channels }: QueueFacts): string {
  const number = (chosen: Chosen) => countOf(counts, chosen)
  const open = number({ status: 'open' })
  const breaches = number({ status: 'open', severity: 'breach' })
  const critical = number({ status: 'open', severity: 'critical' })
  const acknowledged = number({ status: 'acknowledged' })
  const failing = channels?.filter((channel) => stateOfChannel(channel) === 'failing').length ?? 0
  return listText(
    open === 0 ? 'No open alerts' : `${isComplete ? '' : 'At least '}${counted(open, 'open alert')}`,
    breaches > 0 && (breaches === 1 ? '1 breach' : `${breaches.toLocaleString('en')} breaches`),
    breaches === 0 && critical > 0 && `${critical.toLocaleString('en')} critical`,
    open === 0 && acknowledged > 0 && `${acknowledged.toLocaleString('en')} acknowledged`,
    failing > 0 && `${counted(failing, 'channel')} failing`,
    channels?.every(({ enabled }) => !enabled) === true && 'nobody is notified',
  )
}

type Change = AlertDetail['history'][number]

/** Describes a change of an alert, without its actor and without texts written by people. */
export function changeText({ before, after, alerts }: Change): string {
  const isMoved = after.status !== before.status || after.verdict !== before.verdict
  const state = after.status === 'open' ? 'reopened' : (after.status ?? 'changed the state')
  const assigned =
    after.assignee !== before.assignee && `${after.assignee === null ? 'removed' : 'changed'} the assignee`
  const did = listText(isMoved && `${state}${verdictText(after.verdict)}`, assigned)
  return listText(did || 'changed nothing', alerts > 1 && `with ${counted(alerts - 1, 'other alert')}`)
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
  const part = (name: string, values: readonly string[] = []) => values.length > 0 && `${name} ${values.join(' or ')}`
  return listText(part('severity', among), part('type', types), part('agent', instances)) || 'all alerts'
}

/** Reads the match of a form with the fields `severity`, `types` and `instances`: lists, separated by commas or spaces. */
export function matchOf(form: FormData): AlertMatch {
  const listOf = (name: string) => String(form.get(name) ?? '').match(/[^\s,]+/g) ?? []
  const match = {
    severities: severities.filter((severity) => form.getAll('severity').includes(severity)),
    types: listOf('types'),
    instances: listOf('instances'),
  }
  return Object.fromEntries(Object.entries(match).filter(([, values]) => values.length > 0))
}

export const previewWords: Record<AlertPreview['channels'][number]['outcome'], string> = {
  receives: 'receives it',
  silenced: 'suppressed by a silence',
  disabled: 'disabled',
  below_severity: 'below its minimum severity',
  no_route: 'no matching route',
  never_alerted: 'session metrics never create alerts',
}

/** Returns the state of a channel. A channel that has never delivered anything is not proven to work. */
export function stateOfChannel({ enabled, state, paused_until, last_delivered_at }: Channel) {
  if (!enabled) return 'disabled'
  if (state === 'failing' || paused_until !== null) return 'failing'
  return last_delivered_at === null ? 'not tried yet' : 'working'
}

/** Describes the facts behind a channel's state. The receiver's own text is shown beside it. */
export function healthText(channel: Channel, now: number): string {
  const { enabled, paused_until, waiting, dead, behind, last_delivered_at } = channel
  if (!enabled) return 'Missed alerts are not sent later'
  return listText(
    last_delivered_at === null
      ? 'No deliveries yet: send a test'
      : `Last delivery ${spanText(now - Date.parse(last_delivered_at))} ago`,
    paused_until !== null && `next attempt in ${spanText(Date.parse(paused_until) - now)}`,
    waiting > 0 && `${waiting.toLocaleString('en')} pending`,
    behind > 0 && `${counted(behind, 'alert')} not processed yet`,
    dead > 0 && `${dead.toLocaleString('en')} failed`,
  )
}

/** Splits a body into lines. JSON gets one line per field; line breaks within its texts stay escaped. */
export function readableBody(content: Pick<MessageContent, 'body' | 'content_type' | 'cut'>): string[] {
  const { body, content_type, cut } = content
  const json = cut || !content_type.includes('json') ? undefined : parsedJson(body)
  return (json === undefined ? body : JSON.stringify(json, null, 2)).split('\n')
}
