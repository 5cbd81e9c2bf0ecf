import type { Socket } from 'node:net'
import { finished } from 'node:stream/promises'
import { type Destination, EgressError } from '../../../egress/egress.ts'
import type { Message, Severity } from '../message.ts'
import { toCef } from './cef.ts'
import type { SocketChannel } from './channel.ts'
import { oneLineJson } from './one-line.ts'
import { receiverHost, receiverUrl } from './receiver-url.ts'
import { reporterName } from './reporter.ts'
import { type SyslogParts, type SyslogSeverity, syslogFrame, syslogMessage } from './syslog-message.ts'
import { toldAt, toldType, writeFitting } from './told-row.ts'

const severities: Record<Severity, SyslogSeverity> = {
  info: 'info',
  warning: 'warning',
  critical: 'critical',
  breach: 'alert',
}

/** RFC 5425, section 4.3.1, asks receivers to take 8,192 octets; rsyslog cuts what is longer than 8 k unless told. */
const mostBytes = 8_000

/** Port of RFC 5425, section 4.1; for plain TCP none is registered, and 514 is what servers are set up with. */
const defaultPorts = { tls: 6514, tcp: 514 }

function destinationOf(given: string): Destination {
  const { protocol, hostname, port } = receiverUrl(given)
  const tls = protocol === 'tls:'
  return {
    host: hostname.replaceAll(/[[\]]/g, ''),
    port: Number(port || (tls ? defaultPorts.tls : defaultPorts.tcp)),
    tls,
  }
}

/** What tells a message apart stands in the structured data too, so that no receiver has to parse the text for it. */
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

/** Writes, says that no more comes, and waits until the receiver has said the same. */
async function handOver(socket: Socket, frame: string, signal: AbortSignal): Promise<void> {
  socket.resume()
  socket.end(frame)
  try {
    await finished(socket, { signal })
  } catch (fault) {
    throw signal.aborted
      ? new EgressError('The receiver did not close the connection in time, so nothing shows that it took the message.')
      : new EgressError(`The connection broke before the receiver had taken the message (${codeOf(fault)}).`)
  } finally {
    socket.destroy()
  }
}

const codeOf = (fault: unknown): string => (fault as NodeJS.ErrnoException).code ?? 'unknown'

/**
 * RFC 5424 over TCP, or TLS by RFC 5425; each message on a connection of its own. Syslog has no acknowledgement.
 * "Delivered" means: all was handed to the system, and the receiver closed its side in answer to the end of ours, which
 * servers do when they have read up to it. Whether it was stored, nobody says. A receiver that closes at once, while the
 * message is still on its way, cannot be told from one that read it, nor can a close that somebody on the way feigns,
 * with TLS as without. A reset, an error of TLS, and a receiver that has not closed when `signal` aborts, count as
 * failures: rather twice than never.
 */
export const syslog: SocketChannel<'syslog'> = {
  type: 'syslog',
  audience: 'machines',
  destination: receiverHost,

  async deliver(message, { url, format }, sender, egress, signal) {
    const frame = syslogFrame(
      writeFitting(message, mostBytes, (told) =>
        syslogMessage({
          severity: severities[message.severity],
          at: toldAt(message),
          host: reporterName(sender),
          type: toldType(message),
          data: dataOf(message),
          text: format === 'cef' ? toCef(message, told, sender.version) : oneLineJson(told),
        }),
      ),
    )
    await handOver(await egress.connect(destinationOf(url), signal), frame, signal)
    return { delivered: true, status: null, answer: null, error: null }
  },
}
