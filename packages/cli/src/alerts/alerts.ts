import {
  type Alert,
  type AlertChange,
  type AlertDetail,
  type AlertQuery,
  alertStatuses,
  type ChannelView,
  type Client,
  type Severity,
  severities,
  titleOf,
} from '@wardline/contract'
import { safeJson, sanitize } from '@wardline/text'
import { type Command, Option } from 'commander'
import { severityText } from '../events/event-text.ts'
import { readRows, rowLimit } from '../row-pages.ts'
import { withService } from '../service/options.ts'
import { findService } from '../service/service.ts'
import type { ServiceFlags } from '../service/settings.ts'
import { textTable } from '../text-table.ts'
import { addChannelHint } from './channel-text.ts'

const withoutFraction = (time: string): string => sanitize(time).replace(/\.\d+Z$/, 'Z')

/** Formats an alert as one line: time, severity, state, id, title, description. */
function alertLine(alert: Alert): string {
  const { id, created_at, severity, status, description } = alert
  const what = [id, titleOf(alert), description].map(sanitize).join('  ')
  return `${withoutFraction(created_at)}  ${severityText(severity, 8)}  ${sanitize(status).padEnd(12)}  ${what}`
}

type Delivery = AlertDetail['deliveries'][number]

/** Returns cells with the state of the message and the receiver's response. */
function fateOf({ outcome, state, attempts, last_status, last_answer, last_error, delivered_at }: Delivery): string[] {
  if (state === null) return [outcome, '', '']
  const attemptText = attempts === 1 ? '1 attempt' : `${attempts} attempts`
  const fates = { delivered: `delivered ${delivered_at ?? ''}`, pending: 'pending', dead: 'given up' }
  const said = [last_status === null ? '' : String(last_status), last_answer ?? '', last_error ?? '']
  return [outcome, `${fates[state]}, ${attemptText}`, said.filter((part) => part !== '').join(' ')]
}

/** Returns cells with the id, time, author and text of a comment. */
function commentCells({ id, at, author_name, text, deleted_by_name }: AlertDetail['comments'][number]): string[] {
  return [id, withoutFraction(at), author_name, text ?? `deleted by ${deleted_by_name}`]
}

/** Formats an alert with its comments and deliveries. Deleted channels are shown by id. */
function alertText(alert: AlertDetail, channels: readonly Pick<ChannelView, 'id' | 'name'>[]): string {
  const names = new Map(channels.map(({ id, name }) => [id, name]))
  const verdict = alert.verdict === null ? '' : `, ${alert.verdict.replace('_', ' ')}`
  const rows: [string, string | null][] = [
    ['Alert', titleOf(alert)],
    ['Id', alert.id],
    ['Time', alert.created_at],
    ['Severity', alert.severity],
    ['Type', alert.event_type],
    ['Instance', alert.instance_id],
    ['Session', alert.session_id],
    ['Source', alert.source],
    ['Says', alert.description],
    ['Status', `${alert.status}${verdict}${alert.changed_at === null ? '' : ` since ${alert.changed_at}`}`],
    [
      'Assignee',
      alert.assignee_name && `${alert.assignee_name}${alert.assignee_ended ? ', has no access any more' : ''}`,
    ],
  ]
  const facts = textTable(rows.flatMap(([name, value]) => (value === null ? [] : [[name, sanitize(value)]])))
  const fates = alert.deliveries.map((delivery) =>
    [names.get(delivery.channel_id) ?? delivery.channel_id, ...fateOf(delivery)].map(sanitize),
  )
  const comments = alert.comments.map((comment) => commentCells(comment).map(sanitize))
  const said = comments.length > 0 ? `\n\n${textTable(comments)}` : ''
  return `${facts}${said}\n\n${fates.length > 0 ? textTable(fates) : 'Nobody was notified, or not yet: no channel has a message for it.'}`
}

interface ListOptions extends ServiceFlags {
  status?: (typeof alertStatuses)[number]
  severity?: Severity
  type?: string
  instance?: string
  assigned?: string
  limit: number
  before?: string
}

interface ChangeOptions extends ServiceFlags {
  assignee?: string
  comment?: string
  group?: boolean
  truePositive?: boolean
  falsePositive?: boolean
}

/** Says that nobody hears of alerts; undefined if there is a channel. */
async function unnotifiedText(call: Client): Promise<string | undefined> {
  const { channels } = await call('listChannels', {})
  if (channels.some(({ enabled }) => enabled)) return undefined
  return channels.length === 0
    ? `Nobody is notified: no alert channel is configured. ${addChannelHint}`
    : 'Nobody is notified: all alert channels are disabled. Enable one: wardline channels change <id> --enable.'
}

async function list(options: ListOptions): Promise<void> {
  const { status, severity, type, instance, assigned, limit, before, json } = options
  const { call } = await findService(options)
  const filter: AlertQuery = { status, severity, event_type: type, instance_id: instance, assigned }
  const { rows, next } = await readRows(limit, before, async (page) => {
    const reply = await call('listAlerts', { query: { ...filter, ...page } })
    return { rows: reply.alerts, next: reply.next }
  })
  if (json) return console.log(safeJson({ alerts: rows, next }, 2))
  for (const alert of rows) console.log(alertLine(alert))
  const hasFilter = [before, ...Object.values(filter)].some((value) => value !== undefined)
  if (next !== null) console.error(`-- for more, repeat with --before ${sanitize(next)}`)
  else if (rows.length === 0) console.error(hasFilter ? 'No alert matches.' : 'No alerts.')
  const unnotified = await unnotifiedText(call)
  if (unnotified !== undefined) console.error(unnotified)
}

async function show(id: string, flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const alert = await call('getAlert', { params: { id } })
  if (flags.json) return console.log(safeJson(alert, 2))
  const { channels }: { channels: ChannelView[] } = await call('listChannels', {})
  console.log(alertText(alert, channels))
}

const verdictOf = ({ truePositive, falsePositive }: ChangeOptions): Pick<AlertChange, 'verdict'> =>
  truePositive ? { verdict: 'true_positive' } : falsePositive ? { verdict: 'false_positive' } : {}

async function change(id: string, status: NonNullable<AlertChange['status']>, options: ChangeOptions): Promise<void> {
  const { assignee, comment, group, json } = options
  const body: AlertChange = {
    status,
    ...verdictOf(options),
    assignee,
    comment,
    ...(group ? { whole_group: true } : {}),
  }
  const { call } = await findService(options)
  const reply = await call('changeAlert', { params: { id }, body })
  if (json) return console.log(safeJson(reply, 2))
  console.log(
    reply.changed === 1 ? `Alert ${sanitize(reply.id)} is ${status}.` : `${reply.changed} alerts are ${status}.`,
  )
}

async function comment(id: string, text: string, flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const reply = await call('addComment', { params: { id }, body: { text } })
  console.log(flags.json ? safeJson(reply, 2) : `Comment ${sanitize(reply.id)} added.`)
}

async function deleteComment(id: string, flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const reply = await call('deleteComment', { params: { id } })
  console.log(flags.json ? safeJson(reply, 2) : `Comment ${sanitize(reply.id)} deleted.`)
}

async function assign(id: string, who: string, options: ChangeOptions): Promise<void> {
  const { call } = await findService(options)
  const assignee = who === 'none' ? null : who
  const body: AlertChange = { assignee, ...(options.group ? { whole_group: true } : {}) }
  const reply = await call('changeAlert', { params: { id }, body })
  if (options.json) return console.log(safeJson(reply, 2))
  const done = assignee === null ? 'unassigned' : 'assigned'
  console.log(reply.changed === 1 ? `Alert ${sanitize(reply.id)} ${done}.` : `${reply.changed} alerts ${done}.`)
}

const withGroup = (command: Command): Command =>
  withService(
    command
      .option('--comment <text>', 'comment for others, on this alert')
      .option('--group', 'also every unresolved alert of the same type and instance'),
  )

export function addAlerts(program: Command): void {
  const alerts = program.command('alerts').description('list, acknowledge, comment on and resolve alerts')
  const listing = alerts
    .command('list', { isDefault: true })
    .description('list alerts, newest first; the default of `wardline alerts`')
    .addOption(new Option('--status <status>', 'only these values').choices(alertStatuses))
    .addOption(new Option('--severity <severity>', 'only this severity').choices(severities))
    .option('--type <type>', 'type of event')
    .option('--instance <id>', 'instance id')
    .option('--assigned <id>', 'the id of a person or key, me or none')
    .option('--limit <number>', 'maximum alerts', rowLimit, 100)
    .option('--before <cursor>', 'continue where a previous list ended')
  withService(listing).action(list)
  withService(
    alerts
      .command('show <id>')
      .description('show an alert, its comments, its delivery to each channel, and the answers of receivers'),
  ).action(show)
  const acknowledging = alerts
    .command('ack <id>')
    .description('acknowledge an alert: stops its reminders')
    .option('--assignee <who>', 'a person or key, by name, mail address or id; or me')
  withGroup(acknowledging).action((id: string, options: ChangeOptions) => change(id, 'acknowledged', options))
  const resolving = alerts
    .command('resolve <id>')
    .description('resolve an alert, and notify the channels that received it')
    .addOption(new Option('--true-positive', 'mark it as a true positive').conflicts('falsePositive'))
    .option('--false-positive', 'mark it as a false positive')
  withGroup(resolving).action((id: string, options: ChangeOptions) => change(id, 'resolved', options))
  withService(alerts.command('reopen <id>').description('undo acknowledge or resolve')).action(
    (id: string, options: ChangeOptions) => change(id, 'open', options),
  )
  withService(
    alerts
      .command('assign <id> <who>')
      .description('assign an alert: to me, none, or a person or key by name, mail address or id')
      .option('--group', 'also every unresolved alert of the same type and instance'),
  ).action(assign)
  withService(alerts.command('comment <id> <text>').description('comment on an alert')).action(comment)
  withService(
    alerts
      .command('delete-comment <id>')
      .description('delete the text of your comment; who deleted it stays. Scope admin deletes any'),
  ).action(deleteComment)
}
