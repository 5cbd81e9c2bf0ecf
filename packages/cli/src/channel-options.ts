import { type ChannelChange, type QuietHours, type Severity, severities } from '@wardline/contract'
import { type Command, InvalidArgumentError, Option } from 'commander'
import { Failure } from './exit.ts'

/** What a channel is told to do, besides where it leads. */
export interface ChannelOptions {
  minSeverity?: Severity
  /** `22:00-07:00`; false to have none. */
  quiet?: [from: string, to: string] | false
  timeZone?: string
  quietLeast?: QuietHours['least']
  dailyCheck?: boolean
  resolved?: boolean
  maxPerMinute?: number
  enable?: boolean
  disable?: boolean
}

function quietHours({ quiet, timeZone, quietLeast }: ChannelOptions): Pick<ChannelChange, 'quiet_hours'> {
  if (quiet === false) return { quiet_hours: null }
  if (quiet === undefined) {
    if (timeZone === undefined && quietLeast === undefined) return {}
    throw new Failure('--time-zone and --quiet-least belong to --quiet <from-to>.', 'usage', 'usage')
  }
  if (timeZone === undefined) {
    throw new Failure('--quiet needs --time-zone, such as Europe/Berlin.', 'usage', 'usage')
  }
  const [from, to] = quiet
  return { quiet_hours: { from, to, time_zone: timeZone, ...(quietLeast === undefined ? {} : { least: quietLeast }) } }
}

/** The fields of the request that were given. Throws Failure where one says nothing without another. */
export function channelFields(options: ChannelOptions): ChannelChange {
  const { minSeverity, dailyCheck, resolved, maxPerMinute, enable, disable } = options
  return {
    ...(minSeverity === undefined ? {} : { min_severity: minSeverity }),
    ...quietHours(options),
    ...(dailyCheck === undefined ? {} : { daily_check: dailyCheck }),
    ...(resolved === undefined ? {} : { send_resolved: resolved }),
    ...(maxPerMinute === undefined ? {} : { max_per_minute: maxPerMinute }),
    ...(enable || disable ? { enabled: enable === true } : {}),
  }
}

function hours(text: string): [string, string] {
  const [, from, to] = /^(\d{2}:\d{2})-(\d{2}:\d{2})$/.exec(text) ?? []
  if (from === undefined || to === undefined) throw new InvalidArgumentError('It must be like 22:00-07:00.')
  return [from, to]
}

function perMinute(text: string): number {
  if (!/^\d{1,3}$/.test(text)) throw new InvalidArgumentError('It must be a whole number.')
  return Number(text)
}

/** Adds the options that `add` and `change` share; only a change can also take them back. */
export function withChannelOptions(command: Command, isChange: boolean): Command {
  const shared = command
    .addOption(new Option('--min-severity <severity>', 'least severity that it takes').choices(severities))
    .option('--quiet <from-to>', 'hours such as 22:00-07:00, after which lesser alerts come together', hours)
    .option('--time-zone <zone>', 'whose clocks these hours are of, such as Europe/Berlin')
    .addOption(
      new Option('--quiet-least <severity>', 'least severity that still comes then; critical unless told').choices([
        'critical',
        'breach',
      ]),
    )
    .option('--max-per-minute <number>', 'messages to people before they are joined; 20 unless told', perMinute)
  if (isChange) shared.option('--no-quiet', 'no quiet hours any more').option('--daily-check', 'send it again')
  shared.option('--no-daily-check', 'no message a day that proves that alerts arrive')
  if (isChange) shared.option('--resolved', 'tell it again')
  return shared.option('--no-resolved', 'do not tell people what is over')
}
