import type { ChannelChange, ChannelType, QuietHours } from '@wardline/contract'
import { allChannels } from './channels/all-channels.ts'
import type { KnownChannel } from './directory.ts'
import type { ChannelRow } from './directory-queries.ts'

/** What of a channel is neither secret nor its name, and can be changed also where the environment names it. */
export type ChannelOptions = Pick<
  KnownChannel,
  'min_severity' | 'enabled' | 'send_resolved' | 'daily_check' | 'max_per_minute' | 'quiet_hours'
>

/** People are not told of what is only information; machines keep everything. */
export const defaultOptions = (type: ChannelType): ChannelOptions => ({
  min_severity: allChannels[type].audience === 'machines' ? 'info' : 'warning',
  enabled: true,
  send_resolved: true,
  daily_check: true,
  max_per_minute: 20,
  quiet_hours: null,
})

export const changedOptions = (options: ChannelOptions, change: ChannelChange): ChannelOptions => ({
  min_severity: change.min_severity ?? options.min_severity,
  enabled: change.enabled ?? options.enabled,
  send_resolved: change.send_resolved ?? options.send_resolved,
  daily_check: change.daily_check ?? options.daily_check,
  max_per_minute: change.max_per_minute ?? options.max_per_minute,
  quiet_hours: change.quiet_hours === undefined ? options.quiet_hours : change.quiet_hours,
})

export const optionsOf = (row: ChannelRow): ChannelOptions => ({
  min_severity: row.min_severity,
  enabled: row.enabled === 1,
  send_resolved: row.send_resolved === 1,
  daily_check: row.daily_check === 1,
  max_per_minute: row.max_per_minute,
  quiet_hours: row.quiet_hours === null ? null : JSON.parse(row.quiet_hours),
})

const flag = (value: boolean): 0 | 1 => (value ? 1 : 0)

/** The options as a row holds them. */
export const optionColumns = ({ quiet_hours, ...options }: ChannelOptions) => ({
  ...options,
  enabled: flag(options.enabled),
  send_resolved: flag(options.send_resolved),
  daily_check: flag(options.daily_check),
  quiet_hours: quiet_hours === null ? null : JSON.stringify(quiet_hours),
})

/** The formatter also takes offsets such as +01:00, which know no summer. */
function isTimeZone(name: string): boolean {
  try {
    return /^[A-Za-z]/.test(name) && new Intl.DateTimeFormat('en', { timeZone: name }) !== undefined
  } catch {
    return false
  }
}

/** The sentence that refuses hours which the schema lets pass. */
export function quietHoursFault(hours: QuietHours | null | undefined): string | undefined {
  if (!hours) return undefined
  if (hours.from === hours.to) return 'quiet_hours.to must differ from quiet_hours.from.'
  return isTimeZone(hours.time_zone)
    ? undefined
    : 'quiet_hours.time_zone must be an IANA time zone, such as Europe/Berlin.'
}
