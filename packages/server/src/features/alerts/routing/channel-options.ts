import { type ChannelChange, type ChannelType, channelKinds, type QuietHours, type Severity } from '@wardline/contract'
import type { ChannelRow } from './queries.ts'

/** Options of a channel besides name and settings. They can also be changed for channels of the environment. */
export interface ChannelOptions {
  min_severity: Severity
  enabled: boolean
  send_resolved: boolean
  daily_check: boolean
  personal_mail: boolean
  max_per_minute: number
  quiet_hours: QuietHours | null
}

/** Default minimum severity: people are not notified of info, machines get everything. */
export const defaultOptions = (type: ChannelType): ChannelOptions => ({
  min_severity: channelKinds[type].audience === 'machines' ? 'info' : 'warning',
  enabled: true,
  send_resolved: true,
  daily_check: true,
  personal_mail: false,
  max_per_minute: 20,
  quiet_hours: null,
})

export const changedOptions = (options: ChannelOptions, change: ChannelChange): ChannelOptions => ({
  min_severity: change.min_severity ?? options.min_severity,
  enabled: change.enabled ?? options.enabled,
  send_resolved: change.send_resolved ?? options.send_resolved,
  daily_check: change.daily_check ?? options.daily_check,
  personal_mail: change.personal_mail ?? options.personal_mail,
  max_per_minute: change.max_per_minute ?? options.max_per_minute,
  quiet_hours: change.quiet_hours === undefined ? options.quiet_hours : change.quiet_hours,
})

export const optionsOf = (row: ChannelRow): ChannelOptions => ({
  min_severity: row.min_severity,
  enabled: row.enabled === 1,
  send_resolved: row.send_resolved === 1,
  daily_check: row.daily_check === 1,
  personal_mail: row.personal_mail === 1,
  max_per_minute: row.max_per_minute,
  quiet_hours: row.quiet_hours === null ? null : JSON.parse(row.quiet_hours),
})

const flag = (value: boolean): 0 | 1 => (value ? 1 : 0)

/** Options as columns of a row. */
export const optionColumns = ({ quiet_hours, ...options }: ChannelOptions) => ({
  ...options,
  enabled: flag(options.enabled),
  send_resolved: flag(options.send_resolved),
  daily_check: flag(options.daily_check),
  personal_mail: flag(options.personal_mail),
  quiet_hours: quiet_hours === null ? null : JSON.stringify(quiet_hours),
})
