import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { SMTPServer, type SMTPServerOptions } from 'smtp-server'
import { onTestFinished } from 'vitest'
import { createTestCertificate } from '../../../../test-servers/certificate.ts'

export interface Mail {
  from: string
  to: string[]
  text: string
  isSecure: boolean
  user: string | undefined
}

export const failure = (responseCode: number, message: string) => Object.assign(new Error(message), { responseCode })

const ownCertificate = createTestCertificate()

/**
 * Starts a mail server on a free port that accepts the login bob:s3cret, offers STARTTLS with a self-signed
 * certificate, and stores its mail.
 */
export async function openMailServer(options: SMTPServerOptions = {}, port = 0) {
  const mails: Mail[] = []
  const logins: (string | null | undefined)[] = []
  const faults: Error[] = []
  const server = new SMTPServer({
    ...ownCertificate,
    authOptional: true,
    onAuth({ username, password }, _session, done) {
      logins.push(password)
      if (username === 'bob' && password === 's3cret') done(null, { user: username })
      else done(failure(535, 'Invalid username or password'))
    },
    onRcptTo({ address }, _session, done) {
      done(address.startsWith('nobody') ? failure(550, 'No such user here') : null)
    },
    async onData(stream, { envelope, secure, user }, done) {
      const text = Buffer.concat(await stream.toArray()).toString()
      const from = envelope.mailFrom ? envelope.mailFrom.address : ''
      mails.push({ from, to: envelope.rcptTo.map(({ address }) => address), text, isSecure: secure, user })
      done(null, 'Queued as 7')
    },
    ...options,
  })
  // Clients of these tests abort connections, which the server reports as errors.
  server.on('error', (fault) => faults.push(fault))
  const listening = server.listen(port, '127.0.0.1')
  await once(listening, 'listening')
  const close = () => new Promise<void>((done) => void server.close(() => done()))
  return { port: (listening.address() as AddressInfo).port, mails, logins, faults, close }
}

export async function startMailServer(options?: SMTPServerOptions) {
  const server = await openMailServer(options)
  onTestFinished(server.close)
  return server
}
