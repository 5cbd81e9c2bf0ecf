import type { Socket } from 'node:net'
import { finished } from 'node:stream/promises'
import type { Severity } from '@wardline/contract'
import { safeJson, sanitize } from '@wardline/text'
import { isoTime } from '../../../clock.ts'
import { targetOf } from '../../../egress/destination-rules.ts'
import { type Destination, EgressError } from '../../../egress/egress.ts'
import { toCef } from './cef.ts'
import type { SocketChannel } from './channel.ts'
import { receiverHost, receiverUrl, reporterName } from './http-receiver.ts'
import { happenedAt, typeOf, writeBounded } from './machine-row.ts'
import type { Message } from './message.ts'

/** The used severities of RFC 5424, table 2. Unix hosts print a message of severity 0 on every terminal. */
type SyslogSeverity = 'alert' | 'critical' | 'warning' | 'info'
const severities: Record<SyslogSeverity, number> = { alert: 1, critical: 2, warning: 4, info: 6 }

/**
 * Log audit (table 1). Receivers write the facilities of logins, 4 and 10, into files whose readers expect only logins.
 * Few programs use 13, so an operator can route it separately.
 */
const facility = 13

/**
 * IANA reserves 32473 for documentation (RFC 5612). Private names need an enterprise number; Wardline has none, and
 * this one belongs to no one else.
 */
const dataName = 'wardline@32473'

const messageIdCharacters = 32
const nothing = '-'

/** Escapes `"`, `\` and `]` (section 6.3.3). `sanitize` replaces line ends and other controls, which have no escape. */
const parameter = ([name, value]: [string, string | null]): string =>
  value === null ? '' : ` ${name}="${sanitize(value).replaceAll(/["\\\]]/g, '\\$&')}"`

const printable = (text: string): string => text.replaceAll(/[^!-~]/g, '_') || nothing

export interface SyslogParts {
  severity: SyslogSeverity
  /** Epoch milliseconds. */
  at: number
  host: string
  type: string
  /** Structured data; names have at most 32 letters and underscores. Fields that are null are left out. */
  data: Record<string, string | null>
  /** One line. */
  text: string
}

/**
 * Formats a message of RFC 5424, with the byte order mark that section 6.4 requires for text in UTF-8. PROCID is empty,
 * because it does not matter which process of a deployment sends.
 */
export function syslogMessage({ severity, at, host, type, data, text }: SyslogParts): string {
  const priority = facility * 8 + severities[severity]
  const id = printable(type).slice(0, messageIdCharacters)
  const structured = `[${dataName}${Object.entries(data).map(parameter).join('')}]`
  return `<${priority}>1 ${isoTime(at)} ${printable(host)} wardline ${nothing} ${id} ${structured} \ufeff${text}`
}

/** Octet counting of RFC 6587, section 3.4.1, which RFC 5425 requires for TLS. */
export const syslogFrame = (message: string): string => `${Buffer.byteLength(message)} ${message}`

const syslogSeverities: Record<Severity, SyslogSeverity> = {
  info: 'info',
  warning: 'warning',
  critical: 'critical',
  breach: 'alert',
}

/** Receivers should accept 8,192 octets (RFC 5425, section 4.3.1); rsyslog cuts a longer message by default. */
const maxBytes = 8_000

function destinationOf(given: string): Destination {
  const url = receiverUrl(given)
  const { host, port } = targetOf(url)
  return { host, port, tls: url.protocol === 'tls:' }
}

/** Repeats identifying fields as structured data, so that receivers need not parse the text. */
function dataOf({ id, kind, severity, alerts: [alert] }: Message): SyslogParts['data'] {
  const data = { message_id: id, kind, severity }
  if (alert === undefined) return data
  return {
    ...data,
    id: alert.id,
    seq: String(alert.seq),
    event_type: alert.event_type,
    instance_id: alert.instance_id,
  }
}

/** Writes the frame, ends the connection's own side, and waits until the receiver closes the other. */
async function handOver(socket: Socket, frame: string, signal: AbortSignal): Promise<void> {
  socket.resume()
  socket.end(frame)
  try {
    await finished(socket, { signal })
  } catch (fault) {
    throw signal.aborted
      ? new EgressError('The receiver did not close the connection in time, so the delivery is not confirmed.')
      : new EgressError(`The connection broke before the receiver accepted the message (${codeOf(fault)}).`)
  } finally {
    socket.destroy()
  }
}

const codeOf = (fault: unknown): string => (fault as NodeJS.ErrnoException).code ?? 'unknown'

/**
 * RFC 5424 over TCP, or over TLS by RFC 5425, with a new connection for each message. Syslog has no acknowledgement.
 * "Delivered" means that all bytes were written and the receiver closed its side after ours, which servers do when they
 * have read everything. It does not prove that the message was stored: a receiver that closes before it has read the
 * message looks the same, and so does a close forged by an attacker, with or without TLS. A reset, a TLS error and a
 * receiver that has not closed when `signal` aborts are failures: a duplicate is better than a loss.
 */
export const syslog: SocketChannel<'syslog'> = {
  type: 'syslog',
  destination: receiverHost,

  written: (message, { format }, sender) =>
    writeBounded(message, sender, maxBytes, (data) =>
      syslogMessage({
        severity: syslogSeverities[message.severity],
        at: happenedAt(message),
        host: reporterName(sender),
        type: typeOf(message),
        data: dataOf(message),
        text: format === 'cef' ? toCef(message, data, sender.version) : safeJson(data),
      }),
    ),

  async deliver(message, settings, sender, egress, signal) {
    const { url } = settings
    const frame = syslogFrame(syslog.written(message, settings, sender))
    await handOver(await egress.connect(destinationOf(url), signal), frame, signal)
    return { delivered: true, status: null, answer: null, error: null }
  },
}
