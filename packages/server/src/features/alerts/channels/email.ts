import type { SMTPTransportOptions } from 'nodemailer'
import { type Egress, EgressError } from '../../../egress/egress.ts'
import type { SocketChannel, Verdict } from './channel.ts'
import { mailOf } from './mail.ts'
import { plainText } from './plain-text.ts'
import { receiverHost } from './receiver-url.ts'
import { type SmtpServer, smtpServer } from './smtp-server.ts'
import { withoutSecrets } from './without-secrets.ts'

/** What nodemailer adds to its errors. */
interface SmtpFault {
  message: string
  code?: string
  responseCode?: number
  response?: string
  /** The command that was answered, such as RCPT TO; CONN while connecting. */
  command?: string
  recipient?: string
}

type Hide = (text: string) => string

/** A server that repeats a login in its answer must not bring the password into the delivery log. */
function hideLogin(login: { user: string; pass: string } | null): Hide {
  if (login === null) return (text) => text
  const base64 = (text: string) => Buffer.from(text).toString('base64')
  const { user, pass } = login
  return (text) => withoutSecrets(text, [base64(`\0${user}\0${pass}`), base64(pass), encodeURIComponent(pass), pass])
}

/** A refusal is a verdict; everything else says why there was no answer, and is thrown. */
function verdictOn(fault: SmtpFault, hide: Hide): Verdict {
  const { responseCode: status, response, command = 'CONN' } = fault
  if (fault instanceof EgressError) throw fault
  if (status === undefined) {
    if (fault.code === 'EABORT') throw new EgressError('The mail server did not answer in time.')
    throw new EgressError(`The mail server took no mail: ${plainText(hide(fault.message)).replace(/\.$/, '')}.`)
  }
  const step = command === 'CONN' ? 'the connection' : command
  return {
    delivered: false,
    status,
    answer: hide(response ?? fault.message),
    error: `The mail server answered ${status} to ${step}.`,
  }
}

function refusals(faults: readonly SmtpFault[], hide: Hide): string | null {
  if (faults.length === 0) return null
  const each = faults.map(({ recipient = '', response = '' }) => `${recipient} (${hide(response)})`)
  return `The mail server refused some recipients: ${plainText(each.join(', '))}.`
}

function transportOptions(server: SmtpServer, egress: Egress, signal: AbortSignal): SMTPTransportOptions {
  const { host, port, secure, login, isLoopback } = server
  return {
    host,
    port,
    secure,
    requireTLS: login !== null && !isLoopback,
    tls: { rejectUnauthorized: !isLoopback },
    ...(login === null ? {} : { auth: login }),
    // Texts are texts, never names of files or addresses to read them from.
    disableFileAccess: true,
    disableUrlAccess: true,
    // The guard of addresses is in the way out; TLS is spoken over its connection, at once or after STARTTLS.
    getSocket(_options, done) {
      egress
        .connect({ host, port, tls: false }, signal)
        .then((connection) => done(null, { connection }))
        .catch(done)
    },
  }
}

/**
 * One mail to all recipients by SMTP (RFC 5321). `smtp://` uses STARTTLS where it is offered; when the URL has a user it
 * must be, so that no password goes in clear. Certificates are always checked. Only on loopback, where nobody is
 * between, neither holds. Delivered when at least one recipient was accepted; `error` then names those that were not,
 * which get nothing, since another try would come twice to the others.
 */
export const email: SocketChannel<'email'> = {
  type: 'email',
  audience: 'people',
  destination: receiverHost,
  async deliver(message, settings, sender, egress, signal) {
    const server = smtpServer(settings.url)
    // Most deployments send no mail and never load it.
    const { createTransport } = await import('nodemailer')
    const transport = createTransport(transportOptions(server, egress, signal))
    const hide = hideLogin(server.login)
    try {
      const { response, rejectedErrors = [] } = await transport.sendMail({
        ...mailOf(message, settings, sender),
        signal,
      })
      const status = Number.parseInt(response, 10)
      return { delivered: true, status, answer: hide(response), error: refusals(rejectedErrors, hide) }
    } catch (fault) {
      return verdictOn(fault as SmtpFault, hide)
    }
  },
}
