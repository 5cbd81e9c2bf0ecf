import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'

interface ReceivedAlert {
  path: string
  headers: IncomingHttpHeaders
  // biome-ignore lint/suspicious/noExplicitAny: what a receiver gets is looked at field by field
  body: any
}

interface ReceiverAnswer {
  status: number
  headers?: Record<string, string>
  body?: string
}

export interface AlertReceiver extends AsyncDisposable {
  /** Without a trailing slash. */
  url: string
  /** Alerts acknowledged with 2xx, in order. */
  taken: ReceivedAlert[]
  /** All complete requests. */
  attempts: ReceivedAlert[]
  /** Returns the response to each request; undefined = no response. */
  answer: (alert: ReceivedAlert) => ReceiverAnswer | undefined
}

/** Starts a receiver of JSON messages whose responses the test controls. */
export async function startAlertReceiver(): Promise<AlertReceiver> {
  const receiver: AlertReceiver = {
    url: '',
    taken: [],
    attempts: [],
    answer: () => ({ status: 200, body: 'ok' }),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await once(server.close(), 'close')
    },
  }
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = await request.toArray().catch(() => [])
    const text = Buffer.concat(chunks).toString()
    if (text === '') return
    const alert = { path: request.url ?? '', headers: request.headers, body: JSON.parse(text) }
    receiver.attempts.push(alert)
    const answer = receiver.answer(alert)
    if (!answer) return
    if (answer.status < 300) receiver.taken.push(alert)
    response.writeHead(answer.status, answer.headers).end(answer.body)
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  receiver.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return receiver
}
