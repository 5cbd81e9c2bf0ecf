import { createHash } from 'node:crypto'
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
  /** TLS from the first byte, by `smtps://`. */
  secure: boolean
  /** Null without a user in the URL. */
  login: { user: string; pass: string } | null
  /** On this machine: there is no network between, and the certificate is usually self-signed. */
  isLoopback: boolean
}

/** A pasted password that contains a % stays as it is. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** Reads `smtp(s)://<user>:<password>@<host>:<port>`. */
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

/** Ten alerts at their full length: mail has no limit that matters here. */
const room = 20_000

const entities: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }
const escaped = (text: string): string => text.replaceAll(/[&<>"']/g, (character) => entities[character] ?? character)

function htmlText(lines: MessageLines): string {
  const { headline, note, alerts, rest, done, commands, link } = lines
  const paragraph = (text: string | null) => (text === null ? '' : `<p>${escaped(text)}</p>\n`)
  const items = alerts.map((alert) => `<li>${escaped(alert)}</li>\n`).join('')
  return [
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
    // Phones make links of digits and dates otherwise.
    '<meta name="format-detection" content="telephone=no,date=no,address=no,email=no,url=no"></head><body>\n',
    `<p><strong>${escaped(headline)}</strong></p>\n${paragraph(note)}`,
    items === '' ? '' : `<ul>\n${items}</ul>\n`,
    `${paragraph(rest)}${paragraph(done)}`,
    ...commands.map((command) => `<p>${commandLabel}<code>${escaped(command)}</code></p>\n`),
    link === null ? '' : `<p><a href="${escaped(link)}">${openLabel}</a></p>\n`,
    '</body></html>\n',
  ].join('')
}

/** A domain that no host can have (RFC 2606, section 2), so that ids of two deployments never meet. */
const messageId = (name: string, { deployment }: Sender): string => `<${name}@${deployment}.wardline.invalid>`

/** All mails of a group answer one that was never sent: mail programs show them as one thread. The group may contain any text. */
const threadId = (group: string, sender: Sender): string =>
  messageId(`group.${createHash('sha256').update(group).digest('hex').slice(0, 32)}`, sender)

/**
 * A message as a mail, in the form that nodemailer takes. The same for every try: mail systems know doubles by the
 * Message-ID. Mail programs make links of bare domains, so texts hold none.
 */
function mailOf(message: Message, { from, to }: ChannelSettings['email'], sender: Sender) {
  const lines = messageLines(message, sender, { room, change: unlinked })
  const thread = message.group === null ? {} : { inReplyTo: threadId(message.group, sender) }
  // Given as objects: addresses as text would be taken apart by a grammar that knows comments and groups.
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
      // RFC 3834, section 5: automatic replies ignore this.
      'Auto-Submitted': 'auto-generated',
      'X-Wardline-Message': message.id,
    },
    text: [lines.headline, ...bodyLines(lines)].map((line) => `${line}\n`).join(''),
    html: htmlText(lines),
  }
}

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
    throw new EgressError(`Sending to the mail server failed: ${plainText(hide(fault.message)).replace(/\.$/, '')}.`)
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
 * One mail to all recipients by SMTP (RFC 5321). `smtp://` uses STARTTLS where it is offered, and requires it when the
 * URL has a user, so that no password is sent in clear. Certificates are always checked. On loopback, where there is no
 * network between, neither holds. Delivered when at least one recipient was accepted; `error` then names the others,
 * which get nothing, since a retry would reach the accepted ones twice.
 */
export const email: SocketChannel<'email'> = {
  type: 'email',
  audience: 'people',
  destination: receiverHost,
  written(message, settings, sender) {
    const { subject, text } = mailOf(message, settings, sender)
    return `Subject: ${subject}\n\n${text}`
  },
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
