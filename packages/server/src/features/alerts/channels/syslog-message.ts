import { isoTime } from '../../../clock.ts'
import { oneLine } from './one-line.ts'

/** Severities of RFC 5424, table 2, that are used. Not 0: it goes to every terminal of a receiver that is a Unix host. */
export type SyslogSeverity = 'alert' | 'critical' | 'warning' | 'info'
const severities: Record<SyslogSeverity, number> = { alert: 1, critical: 2, warning: 4, info: 6 }

/**
 * Log audit (table 1). The facilities of logins, 4 and 10, go into files whose readers expect nothing else; hardly
 * anything uses 13, so that it can be routed by itself.
 */
const facility = 13

/**
 * IANA keeps 32473 for documentation (RFC 5612). Names of one's own need an enterprise number, Wardline has none of its
 * own, and this one is no other's.
 */
const dataName = 'wardline@32473'

const messageIdCharacters = 32
const nothing = '-'

/** `"`, `\` and `]` are escaped (section 6.3.3). Line ends and other controls, for which there is no escape, become spaces. */
const parameter = ([name, value]: [string, string | null]): string =>
  value === null ? '' : ` ${name}="${oneLine(value).replaceAll(/["\\\]]/g, '\\$&')}"`

const printable = (text: string): string => text.replaceAll(/[^!-~]/g, '_') || nothing

export interface SyslogParts {
  severity: SyslogSeverity
  /** Epoch milliseconds. */
  at: number
  host: string
  type: string
  /** Structured data; names of at most 32 letters and underscores. What is null is left out. */
  data: Record<string, string | null>
  /** One line. */
  text: string
}

/**
 * A message of RFC 5424, its text in UTF-8 behind the byte order mark that section 6.4 demands. There is no PROCID:
 * the processes of a deployment send alike.
 */
export function syslogMessage({ severity, at, host, type, data, text }: SyslogParts): string {
  const priority = facility * 8 + severities[severity]
  const id = printable(type).slice(0, messageIdCharacters)
  const structured = `[${dataName}${Object.entries(data).map(parameter).join('')}]`
  return `<${priority}>1 ${isoTime(at)} ${printable(host)} wardline ${nothing} ${id} ${structured} \ufeff${text}`
}

/** Octet counting of RFC 6587, section 3.4.1, which RFC 5425 demands for TLS. */
export const syslogFrame = (message: string): string => `${Buffer.byteLength(message)} ${message}`
