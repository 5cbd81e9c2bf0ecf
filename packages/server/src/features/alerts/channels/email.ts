import type { ChannelSettings } from '@wardline/contract'
import { isLoopback } from '@wardline/text'
import type { SMTPTransportOptions } from 'nodemailer'
import { targetOf } from '../../../egress/destination-rules.ts'
import { type Egress, EgressError } from '../../../egress/egress.ts'
import type { Sender, SocketChannel, Verdict } from './channel.ts'
import { receiverHost, receiverUrl } from './http-receiver.ts'
import type { Message } from './message.ts'
import { bodyLines, commandLabel, type MessageLines, messageLines, openLabel } from './message-lines.ts'
import { plainText, unlinked } from './plain-text.ts'
import { withoutSecrets } from './without-secrets.ts'

interface SmtpServer {
  host: string
  port: number
  /** Implicit TLS, by `smtps://`. */
  secure: boolean
  /** Null if the URL has no user. */
  login: { user: string; pass: string } | null
  /** The server is on this machine: traffic does not cross a network, and the certificate is usually self-signed. */
  isLoopback: boolean
}

/** Invalid percent-encoding is returned unchanged, because people paste passwords that contain a %. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** Parses `smtp(s)://<user>:<password>@<host>:<port>`. */
function smtpServer(text: string): SmtpServer {
  const url = receiverUrl(text)
  const target = targetOf(url)
  const host = target.host.toLowerCase()
  return {
    host,
    port: target.port,
    secure: url.protocol === 'smtps:',
    login: url.username === '' ? null : { user: decoded(url.username), pass: decoded(url.password) },
    isLoopback: isLoopback(host),
  }
}

/** Enough for ten alerts at full length; mail itself has no relevant limit. */
const room = 20_000

const entities: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }
const escaped = (text: string): string => text.replaceAll(/[&<>"']/g, (character) => entities[character] ?? character)

function htmlText(lines: MessageLines): string {
  const { headline, note, alerts, rest, done, commands, link, why } = lines
  const paragraph = (text: string | null) => (text === null ? '' : `<p>${escaped(text)}</p>\n`)
  const items = alerts.map((alert) => `<li>${escaped(alert)}</li>\n`).join('')
  return [
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
    // Otherwise phones turn digits, dates and addresses into links.
    '<meta name="format-detection" content="telephone=no,date=no,address=no,email=no,url=no"></head><body>\n',
    `<p><strong>${escaped(headline)}</strong></p>\n${paragraph(note)}`,
    items === '' ? '' : `<ul>\n${items}</ul>\n`,
    `${paragraph(rest)}${paragraph(done)}`,
    ...commands.map((command) => `<p>${commandLabel}<code>${escaped(command)}</code></p>\n`),
    link === null ? '' : `<p><a href="${escaped(link)}">${openLabel}</a></p>\n`,
    paragraph(why),
    '</body></html>\n',
  ].join('')
}

/** `.invalid` is reserved (RFC 2606, section 2) and the deployment is unique, so no other sender uses the same id. */
const messageId = (name: string, { deployment }: Sender): string => `<${name}@${deployment}.wardline.invalid>`

/** All mails of an incident reply to the same id, which belongs to no mail, so that mail programs show them as one thread. */
const threadId = (incident: string, sender: Sender): string => messageId(`incident.${incident}`, sender)

/**
 * Returns a message as a mail for nodemailer. Every attempt uses the same Message-ID, by which mail systems detect
 * duplicates. Mail programs turn bare domains into links, so texts are changed by `unlinked`.
 */
function mailOf(message: Message, { from, to }: ChannelSettings['email'], sender: Sender) {
  const lines = messageLines(message, sender, { room, change: unlinked })
  const thread = message.incident === null ? {} : { inReplyTo: threadId(message.incident.id, sender) }
  // Objects, because nodemailer parses an address string as a list, in which comments and groups have a meaning.
  const sent = { from: { name: '', address: from }, to: to.map((address) => ({ name: '', address })) }
  return {
    envelope: sent,
    from: { name: 'Wardline', address: from },
    to: sent.to,
    subject: lines.headline,
    date: new Date(message.created_at),
    messageId: messageId(message.id, sender),
    ...thread,
    ...(thread.inReplyTo === undefined ? {} : { references: thread.inReplyTo }),
    headers: {
      // RFC 3834, section 5: autoresponders do not reply to such a mail.
      'Auto-Submitted': 'auto-generated',
      'X-Wardline-Message': message.id,
    },
    text: [lines.headline, ...bodyLines(lines)].map((line) => `${line}\n`).join(''),
    html: htmlText(lines),
  }
}

/** Fields of nodemailer's errors. */
interface SmtpFault {
  message: string
  code?: string
  responseCode?: number
  response?: string
  /** The command that failed, such as RCPT TO; CONN while connecting. */
  command?: string
  recipient?: string
}

type Hide = (text: string) => string

/** Removes the login from responses, since a server that repeats it would bring the password into the delivery log. */
function hideLogin(login: { user: string; pass: string } | null): Hide {
  if (login === null) return (text) => text
  const base64 = (text: string) => Buffer.from(text).toString('base64')
  const { user, pass } = login
  return (text) => withoutSecrets(text, [base64(`\0${user}\0${pass}`), base64(pass), encodeURIComponent(pass), pass])
}

/** Commands that a server refuses because of the recipients or the text; others, because of the sender or itself. */
const ofRecipients = ['RCPT TO', 'DATA']

/** Returns the verdict on a response with an error status. Throws EgressError if there was no response. */
function verdictOn(fault: SmtpFault, hide: Hide): Verdict {
  const { responseCode: status, response, command = 'CONN' } = fault
  if (fault instanceof EgressError) throw fault
  if (status === undefined) {
    if (fault.code === 'EABORT') throw new EgressError('The mail server did not answer in time.')
    throw new EgressError(`Sending to the mail server failed: ${plainText(hide(fault.message)).replace(/\.$/, '')}.`)
  }
  const step = command === 'CONN' ? 'the connection' : command
  return {
    delivered: false,
    status,
    answer: hide(response ?? fault.message),
    error: `The mail server answered ${status} to ${step}.`,
    ...(ofRecipients.includes(command) ? { ofRecipients: true } : {}),
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
    // Otherwise nodemailer reads content from a path or URL in the mail options.
    disableFileAccess: true,
    disableUrlAccess: true,
    // The egress checks the address and opens a plain connection; nodemailer runs TLS over it.
    getSocket(_options, done) {
      egress
        .connect({ host, port, tls: false }, signal)
        .then((connection) => done(null, { connection }))
        .catch(done)
    },
  }
}

/**
 * Sends one mail to all recipients by SMTP (RFC 5321). `smtp://` uses STARTTLS if the server offers it, and requires it
 * if the URL has a user, so that no password is sent in clear text. Certificates are verified. On loopback, where
 * traffic does not cross a network, STARTTLS is not required and certificates are not verified. A mail is delivered if
 * the server accepted at least one recipient. `error` then names the refused ones; there is no retry for them, because
 * the accepted recipients would receive the mail twice.
 */
export const email: SocketChannel<'email'> = {
  type: 'email',
  destination: receiverHost,
  written(message, settings, sender) {
    const { subject, text } = mailOf(message, settings, sender)
    return `Subject: ${subject}\n\n${text}`
  },
  async deliver(message, settings, sender, egress, signal) {
    const server = smtpServer(settings.url)
    // Imported on use, because most deployments send no mail.
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
