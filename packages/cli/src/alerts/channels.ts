import {
  type ChannelChange,
  type ChannelType,
  channelTypes,
  type NewChannel,
  type QuietHours,
  type Severity,
  severities,
} from '@wardline/contract'
import { safeJson, sanitize } from '@wardline/text'
import { Argument, type Command, InvalidArgumentError, Option } from 'commander'
import { Failure } from '../exit.ts'
import { durationOption } from '../instant.ts'
import { readRows, rowLimit } from '../row-pages.ts'
import { withService } from '../service/options.ts'
import { findService } from '../service/service.ts'
import type { ServiceFlags } from '../service/settings.ts'
import { readSettings, settingsFor } from './channel-settings.ts'
import { addChannelHint, channelTable, channelText, messageTable, testedText, untriedHint } from './channel-text.ts'

/** Options of a channel, apart from its destination. */
interface ChannelOptions {
  minSeverity?: Severity
  /** From `22:00-07:00`; false: none. */
  quiet?: [from: string, to: string] | false
  timeZone?: string
  quietMinSeverity?: QuietHours['min_severity']
  dailyCheck?: boolean
  resolved?: boolean
  maxPerMinute?: number
  personalMail?: boolean
  enable?: boolean
  disable?: boolean
}

function quietHours({ quiet, timeZone, quietMinSeverity }: ChannelOptions): Pick<ChannelChange, 'quiet_hours'> {
  if (quiet === false) return { quiet_hours: null }
  if (quiet === undefined) {
    if (timeZone === undefined && quietMinSeverity === undefined) return {}
    throw new Failure('--time-zone and --quiet-min-severity belong to --quiet <from-to>.', 'usage', 'usage')
  }
  if (timeZone === undefined) {
    throw new Failure('--quiet needs --time-zone, such as Europe/Berlin.', 'usage', 'usage')
  }
  const [from, to] = quiet
  return { quiet_hours: { from, to, time_zone: timeZone, min_severity: quietMinSeverity } }
}

/** Returns the request fields for the given options. Throws Failure if one requires another. */
export function channelFields(options: ChannelOptions): ChannelChange {
  const { minSeverity, dailyCheck, personalMail, resolved, maxPerMinute, enable, disable } = options
  return {
    min_severity: minSeverity,
    ...quietHours(options),
    daily_check: dailyCheck,
    personal_mail: personalMail,
    send_resolved: resolved,
    max_per_minute: maxPerMinute,
    ...(enable || disable ? { enabled: enable === true } : {}),
  }
}

function hours(text: string): [string, string] {
  const [, from, to] = /^(\d{2}:\d{2})-(\d{2}:\d{2})$/.exec(text) ?? []
  if (from === undefined || to === undefined)
    throw new InvalidArgumentError('It must be a range of hours such as 22:00-07:00.')
  return [from, to]
}

function perMinute(text: string): number {
  if (!/^\d{1,3}$/.test(text)) throw new InvalidArgumentError('It must be a whole number.')
  return Number(text)
}

/** Adds the options shared by `add` and `change`; `change` can also unset them. */
export function withChannelOptions(command: Command, isChange: boolean): Command {
  const shared = command
    .addOption(
      new Option('--min-severity <severity>', 'minimum severity of alerts for this channel').choices(severities),
    )
    .option('--quiet <from-to>', 'quiet hours such as 22:00-07:00; less severe alerts follow at their end', hours)
    .option('--time-zone <zone>', 'time zone of the quiet hours, such as Europe/Berlin')
    .addOption(
      new Option(
        '--quiet-min-severity <severity>',
        'minimum severity sent during quiet hours; default: critical',
      ).choices(['critical', 'breach']),
    )
    .option(
      '--max-per-minute <number>',
      'maximum messages a minute to people; further alerts are joined; default: 20',
      perMinute,
    )
  shared.option('--personal-mail', 'e-mail only: send people the alerts that they chose to get by mail')
  if (isChange) shared.option('--no-personal-mail', 'send no mail to people')
  if (isChange)
    shared.option('--no-quiet', 'remove the quiet hours').option('--daily-check', 'send the daily check message')
  shared.option('--no-daily-check', 'do not send the daily check message')
  if (isChange) shared.option('--resolved', 'notify people when an alert is resolved')
  return shared.option('--no-resolved', 'do not notify people when an alert is resolved')
}

const messageStates = ['pending', 'delivered', 'dead'] as const

interface LogOptions extends ServiceFlags {
  state?: (typeof messageStates)[number]
  limit: number
  before?: string
}

async function test(id: string, { json, ...flags }: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const reply = await call('testChannel', { params: { id } })
  const { ok, error } = reply
  console.log(json ? safeJson(reply, 2) : testedText(reply))
  if (!ok)
    throw new Failure(
      `The message was not delivered: ${error ?? 'the receiver gives no reason.'}`,
      'not_delivered',
      'failed',
    )
  // A mail refused for some of its recipients counts as delivered, with an error.
  if (error !== null && !json) console.error(sanitize(error))
}

async function rotate(id: string, { overlap, json, ...flags }: ServiceFlags & { overlap?: number }): Promise<void> {
  const body = overlap === undefined ? {} : { overlap_seconds: Math.round(overlap / 1_000) }
  const { call } = await findService(flags)
  const reply = await call('rotateChannelSecret', { params: { id }, body })
  if (json) return console.log(safeJson(reply, 2))
  // Only the secret goes to standard output, so that it can be redirected.
  console.error(`New signing secret of channel ${sanitize(reply.id)}. It is shown once:`)
  console.log(sanitize(reply.secret))
}

async function replay(id: string, { json, ...flags }: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const reply = await call('replayChannel', { params: { id } })
  if (json) return console.log(safeJson(reply, 2))
  const { replayed } = reply
  console.log(replayed === 1 ? '1 message is sent again.' : `${replayed} messages are sent again.`)
}

async function log(id: string | undefined, { state, limit, before, json, ...flags }: LogOptions): Promise<void> {
  const { call } = await findService(flags)
  const filter = { channel_id: id, state }
  const { rows, next } = await readRows(limit, before, async (page) => {
    const reply = await call('listMessages', { query: { ...filter, ...page } })
    return { rows: reply.messages, next: reply.next }
  })
  if (json) return console.log(safeJson({ messages: rows, next }, 2))
  if (rows.length > 0) console.log(messageTable(rows))
  if (next !== null) console.error(`-- for more, repeat with --before ${sanitize(next)}`)
  else if (rows.length === 0) console.error('No messages.')
}

/** Adds the commands that test and repair a channel. */
function addChannelTests(channels: Command): void {
  withService(
    channels
      .command('test <id>')
      .description(
        'send a test message and print the answer of the receiver: exit code 0 when it accepted the message, 1 when not',
      ),
  ).action(test)
  const logging = channels
    .command('log')
    .argument('[id]', 'of one channel')
    .description('list sent and waiting messages, newest first, with the answers of receivers')
    .addOption(
      new Option('--state <state>', 'only these states; dead means that delivery was given up').choices(messageStates),
    )
    .option('--limit <number>', 'maximum messages', rowLimit, 100)
    .option('--before <cursor>', 'continue where a previous list ended')
  withService(logging).action(log)
  withService(
    channels.command('replay <id>').description('send all undelivered messages again, with their original ids'),
  ).action(replay)
  const rotating = channels
    .command('rotate-secret <id>')
    .description('rotate the signing secret of a webhook; during an overlap both secrets sign')
    .option('--overlap <duration>', 'how long both secrets sign; default: 24h', durationOption)
  withService(rotating).action(rotate)
}

interface AddOptions extends ServiceFlags, ChannelOptions {
  name: string
  settingsFile?: string
}
type ChangeOptions = ServiceFlags & ChannelOptions & Partial<Pick<AddOptions, 'name' | 'settingsFile'>>

async function list({ json, ...flags }: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const reply = await call('listChannels', {})
  if (json) return console.log(safeJson(reply, 2))
  if (reply.channels.length === 0) return console.error(`No alert channel: alerts are not sent. ${addChannelHint}`)
  console.log(channelTable(reply.channels))
  const hint = untriedHint(reply.channels)
  if (hint !== undefined) console.error(hint)
}

async function show(id: string, { json, ...flags }: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const channel = await call('getChannel', { params: { id } })
  console.log(json ? safeJson(channel, 2) : channelText(channel))
}

async function add(type: ChannelType, options: AddOptions): Promise<void> {
  const { name, settingsFile, json } = options
  const fields = channelFields(options)
  const { call } = await findService(options)
  const settings = await settingsFor(type, settingsFile)
  const reply = await call('createChannel', { body: { ...fields, type, name, settings } as NewChannel })
  if (json) return console.log(safeJson(reply, 2))
  const id = sanitize(reply.id)
  if (reply.secret === undefined) return console.log(`Channel ${id} is added. Test it: wardline channels test ${id}`)
  // Only the secret goes to standard output, so that it can be redirected.
  console.error(`Channel ${id} is added. Test it: wardline channels test ${id}`)
  console.error('Its signing secret is shown once:')
  console.log(sanitize(reply.secret))
}

async function change(id: string, options: ChangeOptions): Promise<void> {
  const { name, settingsFile, json } = options
  const settings = settingsFile === undefined ? undefined : readSettings(settingsFile)
  const body: ChannelChange = { ...channelFields(options), name, settings }
  if (Object.values(body).every((value) => value === undefined))
    throw new Failure('Nothing to change: give at least one option.', 'usage', 'usage')
  const { call } = await findService(options)
  const reply = await call('changeChannel', { params: { id }, body })
  console.log(json ? safeJson(reply, 2) : `Channel ${sanitize(reply.id)} is changed.`)
}

async function remove(id: string, { json, ...flags }: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const reply = await call('deleteChannel', { params: { id } })
  console.log(json ? safeJson(reply, 2) : `Channel ${sanitize(reply.id)} is deleted, with its waiting messages.`)
}

export function addChannels(program: Command): void {
  const channels = program.command('channels').description('manage alert channels')
  withService(channels.command('list', { isDefault: true }).description('list channels, never their secrets')).action(
    list,
  )
  withService(channels.command('show <id>').description('show a channel')).action(show)
  const adding = channels
    .command('add')
    .description('add a channel; at a terminal, prompts for its settings')
    .addArgument(new Argument('<type>', 'type of the receiver').choices(channelTypes))
    .requiredOption('--name <text>', 'display name')
    .option('--settings-file <file>', 'JSON file with the settings; - reads standard input (see the guide to alerts)')
  withService(withChannelOptions(adding, false)).action(add)
  const changing = channels
    .command('change <id>')
    .description('change the given settings of a channel')
    .option('--name <text>', 'display name')
    .option('--settings-file <file>', 'JSON file that replaces all settings; - reads standard input')
    .addOption(new Option('--enable', 'enable the channel for new alerts').conflicts('disable'))
    .option('--disable', 'disable the channel; waiting messages are dropped')
  withService(withChannelOptions(changing, true)).action(change)
  withService(channels.command('delete <id>').description('delete a channel with its waiting messages')).action(remove)
  addChannelTests(channels)
}
