import {
  type AlertChange,
  type AlertQuery,
  alertStatuses,
  type ChannelView,
  type Severity,
  severities,
} from '@wardline/contract'
import { type Command, Option } from 'commander'
import { alertLine, alertText } from './alert-text.ts'
import { readRows, rowLimit } from './row-pages.ts'
import { findService } from './service.ts'
import { withService } from './service-options.ts'
import type { ServiceFlags } from './service-settings.ts'
import { plainJson, plainText } from './terminal-text.ts'

interface ListOptions extends ServiceFlags {
  status?: (typeof alertStatuses)[number]
  severity?: Severity
  type?: string
  instance?: string
  limit: number
  before?: string
}

interface ChangeOptions extends ServiceFlags {
  assignee?: string
  note?: string
  group?: boolean
  truePositive?: boolean
  falsePositive?: boolean
}

async function list(options: ListOptions): Promise<void> {
  const { status, severity, type, instance, limit, before, json } = options
  const { call } = await findService(options)
  const filter: AlertQuery = {
    ...(status === undefined ? {} : { status }),
    ...(severity === undefined ? {} : { severity }),
    ...(type === undefined ? {} : { event_type: type }),
    ...(instance === undefined ? {} : { instance_id: instance }),
  }
  const { rows, next } = await readRows(limit, before, async (page) => {
    const reply = await call('listAlerts', { query: { ...filter, ...page } })
    return { rows: reply.alerts, next: reply.next }
  })
  if (json) return console.log(plainJson({ alerts: rows, next }, 2))
  for (const alert of rows) console.log(alertLine(alert))
  if (next !== null) console.error(`-- more: the same with --before ${plainText(next)}`)
  else if (rows.length === 0) console.error('There is no such alert.')
}

async function show(id: string, flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const alert = await call('getAlert', { params: { id } })
  if (flags.json) return console.log(plainJson(alert, 2))
  const { channels }: { channels: ChannelView[] } = await call('listChannels', {})
  console.log(alertText(alert, channels))
}

const verdictOf = ({ truePositive, falsePositive }: ChangeOptions): Pick<AlertChange, 'verdict'> =>
  truePositive ? { verdict: 'true_positive' } : falsePositive ? { verdict: 'false_positive' } : {}

async function change(id: string, status: NonNullable<AlertChange['status']>, options: ChangeOptions): Promise<void> {
  const { assignee, note, group, json } = options
  const body: AlertChange = {
    status,
    ...verdictOf(options),
    ...(assignee === undefined ? {} : { assignee }),
    ...(note === undefined ? {} : { note }),
    ...(group ? { whole_group: true } : {}),
  }
  const { call } = await findService(options)
  const reply = await call('changeAlert', { params: { id }, body })
  if (json) return console.log(plainJson(reply, 2))
  console.log(
    reply.changed === 1 ? `Alert ${plainText(reply.id)} is ${status}.` : `${reply.changed} alerts are ${status}.`,
  )
}

const withGroup = (command: Command): Command =>
  withService(
    command
      .option('--note <text>', 'what others should know; replaces the note before')
      .option('--group', 'every unresolved alert of the same type and instance too'),
  )

export function addAlerts(program: Command): void {
  const alerts = program.command('alerts').description('what was to be told to somebody, and what became of it')
  const listing = alerts
    .command('list', { isDefault: true })
    .description('alerts, newest first; `wardline alerts` alone does the same')
    .addOption(new Option('--status <status>', 'only these').choices(alertStatuses))
    .addOption(new Option('--severity <severity>', 'only this one').choices(severities))
    .option('--type <type>', 'type of event')
    .option('--instance <id>', 'instance id')
    .option('--limit <number>', 'most alerts to show', rowLimit, 100)
    .option('--before <cursor>', 'go on where a list before this one ended')
  withService(listing).action(list)
  withService(
    alerts
      .command('show <id>')
      .description('one alert, what became of it at each channel, and what receivers answered'),
  ).action(show)
  const acknowledging = alerts
    .command('ack <id>')
    .description('say that somebody looks after it: no reminders any more')
    .option('--assignee <name>', 'who')
  withGroup(acknowledging).action((id: string, options: ChangeOptions) => change(id, 'acknowledged', options))
  const resolving = alerts
    .command('resolve <id>')
    .description('say that it is over; channels that were told of it are told so')
    .addOption(new Option('--true-positive', 'it was what it seemed').conflicts('falsePositive'))
    .option('--false-positive', 'it was a false alarm')
  withGroup(resolving).action((id: string, options: ChangeOptions) => change(id, 'resolved', options))
  withService(
    alerts.command('reopen <id>').description('take back that somebody looks after it, or that it is over'),
  ).action((id: string, options: ChangeOptions) => change(id, 'open', options))
}
