import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { describe, expect, it, onTestFinished } from 'vitest'
import { createTestCertificate } from '../../../../../../test-servers/certificate.ts'
import { type Egress, EgressError } from '../../../egress/egress.ts'
import {
  belowLines,
  chatMessage,
  hostileTexts,
  messagesByKind,
  saidByKind,
  saying,
  testSender,
} from '../../../testing/chat.ts'
import { failure, type Mail, openMailServer, startMailServer } from '../../../testing/mail-server.ts'
import { openEgress } from '../../../testing/receiver.ts'
import { email } from './email.ts'
import type { Message } from './message.ts'

/** Starts a server with scripted responses, for a server that misbehaves. */
async function startScript(answers: (line: string) => string) {
  const lines: string[] = []
  const server = createServer((socket: Socket) => {
    socket.on('error', () => {})
    socket.write('220 ready\r\n')
    socket.on('data', (chunk) => {
      for (const line of chunk.toString().split('\r\n').slice(0, -1)) {
        lines.push(line)
        socket.write(`${answers(line)}\r\n`)
      }
    })
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  onTestFinished(() => new Promise((done) => void server.close(() => done())))
  return { port: (server.address() as AddressInfo).port, lines }
}

/** Returns an egress that connects every host to this machine, so that tests can use names of remote mail servers. */
function egressTo127(): Egress & { asked: unknown[] } {
  const egress = openEgress()
  const asked: unknown[] = []
  const connect: Egress['connect'] = (destination, signal) => {
    asked.push(destination)
    return egress.connect({ ...destination, host: '127.0.0.1' }, signal)
  }
  return { ...egress, connect, asked }
}

const addresses = { from: 'wardline@example.com', to: ['ann@example.com', 'bob@example.org'] }
const send = (
  url: string,
  message: Message = messagesByKind.alert,
  {
    egress = openEgress(),
    signal = AbortSignal.timeout(60_000),
    ...changes
  }: Partial<typeof addresses> & {
    egress?: Egress
    signal?: AbortSignal
  } = {},
) => email.deliver(message, { url, ...addresses, ...changes }, testSender, egress, signal)

interface ReadMail {
  /** In order of the mail, unfolded. */
  headers: [name: string, value: string][]
  text: string
  html: string
}

/** Decodes the transfer encoding of a MIME part (RFC 2045). */
function decoded(part: string): string {
  const [head = '', ...body] = part.split('\r\n\r\n')
  const content = body.join('\r\n\r\n').replace(/\r\n$/, '')
  if (/base64/i.test(head)) return Buffer.from(content, 'base64').toString()
  const bytes = content
    .replaceAll('=\r\n', '')
    .replaceAll(/=([0-9A-F]{2})/g, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)))
  return Buffer.from(bytes, 'latin1').toString()
}

function readMail({ text }: Mail): ReadMail {
  const [head = ''] = text.split('\r\n\r\n')
  const headers = head
    .replaceAll(/\r\n[ \t]+/g, ' ')
    .split('\r\n')
    .map((line): [string, string] => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1).trim()])
  const boundary = /boundary="([^"]+)"/.exec(head)?.[1]
  const [, plain = '', html = ''] = text.split(`--${boundary}`)
  return {
    headers: headers.map(([name, value]) => [name, value.replaceAll(/boundary="[^"]+"/g, 'boundary="…"')]),
    text: decoded(plain.trimStart()).replaceAll('\r\n', '\n'),
    html: decoded(html.trimStart()).replaceAll('\r\n', '\n'),
  }
}

/** Decodes the encoded words of a subject (RFC 2047). */
const decodedSubject = (subject: string): string =>
  subject
    .replaceAll(/\?= =\?/g, '?==?')
    .replaceAll(/=\?UTF-8\?([QB])\?([^?]*)\?=/g, (_, encoding, text: string) =>
      encoding === 'B'
        ? Buffer.from(text, 'base64').toString('latin1')
        : text
            .replaceAll('_', ' ')
            .replaceAll(/=([0-9A-F]{2})/g, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16))),
    )

const mailNames = [
  'Auto-Submitted',
  'X-Wardline-Message',
  'From',
  'To',
  'In-Reply-To',
  'References',
  'Subject',
  'Message-ID',
  'Date',
  'MIME-Version',
  'Content-Type',
]

/** Sends a message to a mail server and returns the mail that the server received. */
async function mailFor(message: Message, changes: Partial<typeof addresses> = {}): Promise<ReadMail & Mail> {
  const { port, mails, close } = await openMailServer()
  const verdict = await send(`smtp://127.0.0.1:${port}`, message, changes)
  await close()
  expect(verdict).toEqual({ delivered: true, status: 250, answer: '250 Queued as 7', error: null })
  expect(mails).toHaveLength(1)
  return { ...mails[0]!, ...readMail(mails[0]!) }
}

// At the same time, because the server lets each connection wait for 100 ms.
describe.concurrent('a mail', () => {
  it('goes once to all recipients, with the expected headers', async () => {
    const { headers, from, to } = await mailFor(messagesByKind.alert)
    expect({ from, to }).toEqual({ from: addresses.from, to: addresses.to })
    const thread = '<incident.019bbf6e-0000-7000-8000-0000000000fe@00112233445566ff.wardline.invalid>'
    expect(headers).toEqual([
      ['Auto-Submitted', 'auto-generated'],
      ['X-Wardline-Message', '019bbf6e-0000-7000-8000-0000000000ff'],
      ['From', 'Wardline <wardline@example.com>'],
      ['To', 'ann@example.com, bob@example.org'],
      ['In-Reply-To', thread],
      ['References', thread],
      ['Subject', '=?UTF-8?Q?=F0=9F=9A=A8_honeypot=5Ftriggered_on_bot?= =?UTF-8?Q?-1?='],
      ['Message-ID', '<019bbf6e-0000-7000-8000-0000000000ff@00112233445566ff.wardline.invalid>'],
      ['Date', 'Thu, 15 Jan 2026 12:00:30 +0000'],
      ['MIME-Version', '1.0'],
      ['Content-Type', 'multipart/alternative; boundary="…"'],
    ])
  })

  it.each(Object.keys(messagesByKind) as Message['kind'][])('has the expected text for kind %s', async (kind) => {
    const { mark, title, lines } = saidByKind[kind]
    const said = [`${mark} ${title}`, ...lines].map((line) => line.replace('113.7', '113[.]7'))
    const { text, headers } = await mailFor(messagesByKind[kind])
    expect(text).toBe(`${[...said, ...belowLines(kind)].join('\n')}\n`)
    expect(headers.map(([name]) => name)).toEqual(
      messagesByKind[kind].group === null
        ? mailNames.filter((name) => name !== 'In-Reply-To' && name !== 'References')
        : mailNames,
    )
  })

  it('has an HTML part with the same content', async () => {
    const { html } = await mailFor(messagesByKind.digest)
    expect(html).toBe(
      [
        '<!doctype html>',
        '<html lang="en"><head><meta charset="utf-8"><meta name="format-detection" content="telephone=no,date=no,address=no,email=no,url=no"></head><body>',
        '<p><strong>⚠️ 2 alerts of the last 8 hours</strong></p>',
        '<p>These alerts were delayed until now.</p>',
        '<ul>',
        '<li>2026-01-14 12:00:30 UTC · warning · bot-1 · honeypot_triggered · Yesterday.</li>',
        '<li>12:00:30 UTC · info · bot-1 · honeypot_triggered</li>',
        '</ul>',
        '<p>Next: <code>wardline alerts list --status open</code></p>',
        '<p><a href="https://wardline.example.com/alerts">Open in Wardline</a></p>',
        '</body></html>\n',
      ].join('\n'),
    )
  })

  it('has the same Message-ID at every attempt, and shares a thread with all mails of its incident', async () => {
    const value = ({ headers }: ReadMail, wanted: string) => headers.find(([name]) => name === wanted)?.[1]
    const [first, second] = [await mailFor(messagesByKind.alert), await mailFor(messagesByKind.alert)]
    const other = await mailFor({ ...messagesByKind.resolved, id: '019bbf6e-0000-7000-8000-0000000000aa' })
    expect(first.headers).toEqual(second.headers)
    expect(value(other, 'Message-ID')).not.toBe(value(first, 'Message-ID'))
    expect(value(other, 'References')).toBe(value(first, 'References'))
    const elsewhere = await mailFor({
      ...messagesByKind.resolved,
      incident: { id: '019bbf6e-0000-7000-8000-0000000000bb', group: 'honeypot_triggered bot-1', place: 0 },
    })
    expect(value(elsewhere, 'References')).not.toBe(value(first, 'References'))
  })

  // A compromised agent could add recipients, end the headers early, run a script in a mail program, or lure the person
  // on call to a link.
  it.each(Object.entries(hostileTexts))('shows %s in an event as plain text', async (_, text) => {
    const message = { ...saying(text), title: text.slice(0, 150), group: text.slice(0, 150) }
    const { text: plain, html, headers, to } = await mailFor(message)
    const [headline, line, ...below] = plain.split('\n')
    expect(below).toEqual([...belowLines('alert'), ''])
    expect(line).toMatch(/^12:00:30 UTC · breach · bot-1 \(Bot one\) · honeypot_triggered · ./)
    expect(`${headline}\n${line?.replace('203.0.113[.]7', '')}`).not.toMatch(/:\/\/|\w\.\w{2}|\w@|[^\n\P{Cc}]|\p{Cf}/u)
    expect(
      html.match(/<\/?[a-z][^>]*>/g)?.filter((tag) => !/^<\/?(html|head|meta|body|p|strong|ul|li|code)\b/.test(tag)),
    ).toEqual(['<a href="https://wardline.example.com/alerts?alert=019bbf6e-0000-7000-8000-000000000001">', '</a>'])
    expect(html.match(/<li>/g)).toHaveLength(1)
    expect(headers.map(([name]) => name)).toEqual(mailNames)
    expect(to).toEqual(addresses.to)
  })

  it.each([
    'a\r\nBcc: x@evil.com',
    'a\nBcc: x@evil.com',
    'a\r\n\r\n<b>body</b>',
    'a\rBcc: x',
    'a\u2028Bcc: x',
    `${'é'.repeat(199)}\r\n`,
  ])('has no additional header with %j as title and group', async (hostile) => {
    const { headers, to } = await mailFor(chatMessage({ title: hostile, group: hostile }))
    expect(headers.map(([name]) => name)).toEqual(mailNames)
    const subject = headers.find(([name]) => name === 'Subject')![1]
    expect(decodedSubject(subject)).not.toMatch(/[\r\n]/)
    expect(to).toEqual(addresses.to)
  })

  // In RFC 5322, a text in parentheses is a comment, so unquoted the second address would name another recipient.
  it.each([
    ["o'hara@example.com", "o'hara@example.com"],
    ['ann(bob)@example.com', '"ann(bob)"@example.com'],
    ['a%b=c+d@example.com', 'a%b=c+d@example.com'],
  ])('to the address %s goes to the mailbox %s', async (address, mailbox) => {
    const { to, from, headers } = await mailFor(messagesByKind.test, { to: [address], from: address })
    expect({ to, from }).toEqual({ to: [mailbox], from: mailbox })
    expect(headers.filter(([name]) => name === 'To').map(([, value]) => value.replace(/^<(.*)>$/, '$1'))).toEqual([
      mailbox,
    ])
  })
})

describe('a mail server', () => {
  it('receives a mail over TLS if it offers STARTTLS, and in clear text if not', async () => {
    const [withTls, without] = [await startMailServer(), await startMailServer({ disabledCommands: ['STARTTLS'] })]
    for (const { port } of [withTls, without]) {
      expect(await send(`smtp://127.0.0.1:${port}`)).toMatchObject({ delivered: true })
    }
    expect([withTls, without].map(({ mails }) => mails[0]!.isSecure)).toEqual([true, false])
  })

  it('receives a mail over implicit TLS by smtps', async () => {
    const { port, mails } = await startMailServer({ secure: true })
    expect(await send(`smtps://bob:s3cret@127.0.0.1:${port}`)).toMatchObject({ delivered: true, status: 250 })
    expect(mails[0]).toMatchObject({ isSecure: true, user: 'bob' })
  })

  it('is only reached through the egress, by the host and port of the URL', async () => {
    const { port, mails } = await startMailServer({ disabledCommands: ['STARTTLS'] })
    const egress = egressTo127()
    expect(await send(`smtp://MAIL.example.com:${port}`, messagesByKind.test, { egress })).toMatchObject({
      delivered: true,
    })
    expect(egress.asked).toEqual([{ host: 'mail.example.com', port, tls: false }])
    expect(mails).toHaveLength(1)
    await Promise.allSettled(
      ['smtp://[::1]', 'smtps://mail.example.com'].map((url) =>
        send(url, messagesByKind.test, {
          egress: {
            ...egress,
            connect: async (destination) => {
              egress.asked.push(destination)
              throw new EgressError('This address is not allowed.')
            },
          },
        }),
      ),
    )
    expect(egress.asked.slice(1)).toEqual([
      { host: '::1', port: 587, tls: false },
      { host: 'mail.example.com', port: 465, tls: false },
    ])
  })

  it('refused by the egress fails with the error of the egress', async () => {
    const refusing: Egress = {
      ...openEgress(),
      connect: () => Promise.reject(new EgressError('That is no public address.')),
    }
    await expect(send('smtp://mail.example.com', messagesByKind.test, { egress: refusing })).rejects.toThrow(
      new EgressError('That is no public address.'),
    )
  })

  it.each(['smtp', 'smtps'])('receives the login of the URL by %s', async (scheme) => {
    const { port, mails, logins } = await startMailServer({ secure: scheme === 'smtps', authOptional: false })
    expect(await send(`${scheme}://bob:s3%63ret@127.0.0.1:${port}`)).toMatchObject({ delivered: true })
    expect(mails[0]).toMatchObject({ user: 'bob', isSecure: true })
    expect(logins).toEqual(['s3cret'])
  })

  it('on loopback may receive the login in clear text', async () => {
    const { port, logins } = await startMailServer({ hideSTARTTLS: true, allowInsecureAuth: true })
    expect(
      await send(`smtp://bob:s3cret@localhost:${port}`, messagesByKind.test, { egress: egressTo127() }),
    ).toMatchObject({
      delivered: true,
    })
    expect(logins).toEqual(['s3cret'])
  })

  // A man in the middle could remove STARTTLS from the server's capabilities and read the password.
  it('on another host receives no login in clear text', async () => {
    const { port, logins, mails } = await startMailServer({ disabledCommands: ['STARTTLS'], allowInsecureAuth: true })
    expect(
      await send(`smtp://bob:s3cret@mail.example.com:${port}`, messagesByKind.test, { egress: egressTo127() }),
    ).toEqual({
      delivered: false,
      status: 500,
      answer: '500 Error: command not recognized',
      error: 'The mail server answered 500 to STARTTLS.',
    })
    expect({ logins, mails }).toEqual({ logins: [], mails: [] })
  })

  it.each([
    ['smtp', 'nobody vouches for', undefined, 'self-signed certificate'],
    ['smtps', 'nobody vouches for', undefined, 'self-signed certificate'],
    // The certificate is trusted, so only the check of its name can refuse it.
    ['smtp', 'is of another host', 'trusted', 'Host: mail.example.com. is not cert'],
    ['smtps', 'is of another host', 'trusted', 'Host: mail.example.com. is not cert'],
  ])('on another host receives nothing by %s if its certificate %s', async (scheme, _, trusted, reason) => {
    const certificate = createTestCertificate()
    if (trusted) {
      const usual = getCACertificates('default')
      onTestFinished(() => setDefaultCACertificates(usual))
      setDefaultCACertificates([...usual, certificate.cert])
    }
    const { port, mails, logins } = await startMailServer({ ...certificate, secure: scheme === 'smtps' })
    const sent = send(`${scheme}://bob:s3cret@mail.example.com:${port}`, messagesByKind.test, { egress: egressTo127() })
    await expect(sent).rejects.toBeInstanceOf(EgressError)
    await expect(sent).rejects.toThrow(reason)
    expect({ mails, logins }).toEqual({ mails: [], logins: [] })
  })
})

describe('a response of a mail server', () => {
  it('to a wrong password is a failure that does not contain the password', async () => {
    const { port, mails } = await startMailServer()
    expect(await send(`smtp://bob:wrong-one@127.0.0.1:${port}`)).toEqual({
      delivered: false,
      status: 535,
      answer: '535 Invalid username or password',
      error: 'The mail server answered 535 to AUTH PLAIN.',
    })
    expect(mails).toEqual([])
  })

  // The response is stored in the delivery log, which every viewer can read.
  it('that repeats the login is stored without it', async () => {
    const { port, lines } = await startScript((line) =>
      /^EHLO/.test(line) ? '250-hello\r\n250 AUTH PLAIN' : `535 Cannot ${line} of s3cret p%40ss`,
    )
    const verdict = await send(`smtp://bob:s3cret@127.0.0.1:${port}`)
    expect(lines[1]).toContain(Buffer.from('\0bob\0s3cret').toString('base64'))
    expect(verdict).toEqual({
      delivered: false,
      status: 535,
      answer: '535 Cannot AUTH PLAIN [secret] of [secret] p%40ss',
      error: 'The mail server answered 535 to AUTH PLAIN.',
    })
  })

  it('that refuses some recipients is a success, and the error names them', async () => {
    const { port, mails } = await startMailServer()
    const to = ['ann@example.com', 'nobody@example.com']
    expect(await send(`smtp://127.0.0.1:${port}`, messagesByKind.test, { to })).toEqual({
      delivered: true,
      status: 250,
      answer: '250 Queued as 7',
      error: 'The mail server refused some recipients: nobody@example.com (550 No such user here).',
    })
    expect(mails[0]!.to).toEqual(['ann@example.com'])
  })

  it('that refuses all recipients is a failure', async () => {
    const { port, mails } = await startMailServer()
    expect(await send(`smtp://127.0.0.1:${port}`, messagesByKind.test, { to: ['nobody@example.com'] })).toEqual({
      delivered: false,
      status: 550,
      answer: '550 No such user here',
      error: 'The mail server answered 550 to RCPT TO.',
      ofRecipients: true,
    })
    expect(mails).toEqual([])
  })

  it.each([
    [451, 'Try again later'],
    [554, 'Spam'],
  ])('that refuses the content with %i is a failure', async (code, words) => {
    const { port } = await startMailServer({
      onData(stream, _session, done) {
        stream.resume().on('end', () => done(failure(code, words)))
      },
    })
    expect(await send(`smtp://127.0.0.1:${port}`)).toEqual({
      delivered: false,
      status: code,
      answer: `${code} ${words}`,
      error: `The mail server answered ${code} to DATA.`,
      ofRecipients: true,
    })
  })

  it('that refuses the connection is a failure', async () => {
    const { port } = await startMailServer({ onConnect: (_session, done) => done(failure(421, 'Busy')) })
    expect(await send(`smtp://127.0.0.1:${port}`)).toMatchObject({
      delivered: false,
      status: 421,
      error: 'The mail server answered 421 to the connection.',
    })
  })

  it('that is missing is an error without the URL', async () => {
    const server = createServer((socket) => socket.destroy())
    await once(server.listen(0, '127.0.0.1'), 'listening')
    onTestFinished(() => void server.close())
    const { port } = server.address() as AddressInfo
    const sent = send(`smtp://bob:s3cret@127.0.0.1:${port}`)
    await expect(sent).rejects.toBeInstanceOf(EgressError)
    await expect(sent).rejects.toThrow(/^Sending to the mail server failed: [^/@]+\.$/)
  })

  it('that is missing when the signal aborts is a timeout, and the connection closes', async () => {
    const greeted = Promise.withResolvers<Socket>()
    const server = createServer((socket) => {
      socket.write('220 ready\r\n')
      socket.once('data', () => greeted.resolve(socket))
    })
    await once(server.listen(0, '127.0.0.1'), 'listening')
    onTestFinished(() => void server.close())
    const { port } = server.address() as AddressInfo
    const stop = new AbortController()
    const sent = send(`smtp://127.0.0.1:${port}`, messagesByKind.test, { signal: stop.signal })
    const socket = await greeted.promise
    const closed = once(socket, 'close')
    stop.abort()
    await expect(sent).rejects.toThrow(new EgressError('The mail server did not answer in time.'))
    await closed
  })

  it('is no longer awaited, and the connection attempt ends, when the signal aborts', async () => {
    const stop = new AbortController()
    const stopped = Promise.withResolvers<void>()
    const connect: Egress['connect'] = (_destination, signal) => {
      signal?.addEventListener('abort', () => stopped.resolve())
      stop.abort()
      return stopped.promise.then(() => Promise.reject(new EgressError('Too late.')))
    }
    const egress = { ...openEgress(), connect }
    const sent = send('smtp://mail.example.com', messagesByKind.test, { egress, signal: stop.signal })
    await expect(sent).rejects.toBeInstanceOf(EgressError)
    await stopped.promise
  })

  it('is not requested if the URL is invalid, and the error does not contain the URL', async () => {
    await expect(send('smtp://bob:s3cret@')).rejects.toThrow(new Error('settings.url is not a valid URL.'))
  })
})
