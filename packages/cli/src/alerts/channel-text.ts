import type { ChannelTested, ChannelView, MessageView } from '@wardline/contract'
import { counted, sanitize } from '@wardline/text'
import { textTable } from '../text-table.ts'

const table = (rows: readonly (readonly string[])[]): string => textTable(rows.map((row) => row.map(sanitize)))

/** Formats the number of pending and dead messages of a channel. */
function backlogOf({ waiting, dead, behind }: ChannelView): string {
  const parts = [
    ...(waiting > 0 ? [`${waiting} waiting`] : []),
    ...(behind > 0 ? [`${counted(behind, 'alert')} behind`] : []),
    ...(dead > 0 ? [`${dead} undelivered`] : []),
  ]
  return parts.join(', ')
}

/** A channel without a delivery is not known to work. */
const isUntried = ({ state, last_delivered_at }: ChannelView): boolean => state === 'ok' && last_delivered_at === null

const stateText = (channel: ChannelView): string => (isUntried(channel) ? 'not tried yet' : channel.state)

/** Advice about channels that delivered nothing so far; undefined if there are none. */
export function untriedHint(channels: readonly ChannelView[]): string | undefined {
  const [first, ...others] = channels.filter(isUntried)
  if (!first) return undefined
  const whose = others.length === 0 ? 'A channel has' : `${others.length + 1} channels have`
  return `${whose} delivered nothing so far. Send a test: wardline channels test ${sanitize(first.id)}`
}

export const channelTable = (channels: readonly ChannelView[]): string =>
  table(
    channels.map((channel) => {
      const { id, type, name, destination, min_severity } = channel
      return [id, stateText(channel), type, name, destination, `from ${min_severity}`, backlogOf(channel)]
    }),
  )

function quietText({ quiet_hours: hours }: ChannelView): string {
  if (hours === null) return 'none'
  return `${hours.from} to ${hours.to}, ${hours.time_zone}; ${hours.min_severity ?? 'critical'} and above are sent at once`
}

/** Formats a channel with its health. */
export function channelText(channel: ChannelView): string {
  const { last_error: error, last_error_at: errorAt } = channel
  const rows: [string, string | null][] = [
    ['Id', channel.id],
    ['Name', channel.name],
    ['Type', channel.type],
    ['Sends to', channel.destination],
    ['Managed by', channel.managed_by],
    ['State', stateText(channel)],
    ['Takes', `${channel.min_severity} and above, at most ${channel.max_per_minute} messages a minute`],
    ['Buttons', channel.decides ? 'decide approvals' : null],
    ['Notify when resolved', channel.send_resolved ? 'yes' : 'no'],
    ['Daily check', channel.daily_check ? 'yes' : 'no'],
    ['Mail to people', channel.personal_mail ? 'yes' : null],
    ['Quiet hours', quietText(channel)],
    ['Waiting', String(channel.waiting)],
    ['Behind', String(channel.behind)],
    ['Undelivered', String(channel.dead)],
    ['Paused until', channel.paused_until],
    ['Last delivered', channel.last_delivered_at],
    ['Last error', error === null ? null : `${error}${errorAt === null ? '' : ` (${errorAt})`}`],
  ]
  return table(rows.flatMap(([name, value]) => (value === null ? [] : [[name, value]])))
}

/** Advice when no channel receives alerts. */
export const addChannelHint =
  'Add one: wardline channels add <type> --name <name>; types and settings: wardline channels add --help.'

const joined = (...parts: (string | number | null)[]): string =>
  parts.filter((part) => part !== null && part !== '').join(' ')

/** Formats the result of a test, with the receiver's response. */
export function testedText({ ok, status, answer, duration_ms }: ChannelTested): string {
  const said = joined(status, answer)
  return sanitize(`${ok ? 'Delivered' : 'Not delivered'} after ${duration_ms} ms${said === '' ? '.' : `: ${said}`}`)
}

function fateOf({ state, attempts, due_at }: MessageView): string {
  const attemptText = attempts === 1 ? '1 attempt' : `${attempts} attempts`
  return `${state}, ${attemptText}${due_at === null ? '' : `, next at ${due_at}`}`
}

export const messageTable = (messages: readonly MessageView[]): string =>
  table(
    messages.map((message) => {
      const { created_at, channel_id, kind, title, last_status, last_error, last_answer } = message
      const answer = joined(last_status, last_error ?? last_answer)
      return [created_at, channel_id, kind, title, fateOf(message), answer]
    }),
  )
