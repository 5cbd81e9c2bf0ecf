import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { expect } from 'vitest'
import { adminKey } from './service.ts'

/** A control stream over a socket, like an agent's. */
interface TestControlStream extends AsyncDisposable {
  /** All text received so far. */
  text(): string
  /** Parsed data of each message received so far. */
  messages(): Record<string, unknown>[]
}

/** Listens on a free port of this machine. Returns the URL without a path. */
export async function listenOnFreePort(app: FastifyInstance): Promise<string> {
  await app.listen({ host: '127.0.0.1', port: 0 })
  return `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`
}

/** Opens a control stream; `query` is appended to the path. Resolves after receiving the instance's state. */
export async function openControlStream(
  url: string,
  instanceId: string,
  query = '',
  key = adminKey,
): Promise<TestControlStream> {
  const connection = request(`${url}/api/instances/${instanceId}/control${query}`, {
    agent: false,
    headers: { 'x-monitor-key': key },
  }).end()
  const [answer] = (await once(connection, 'response')) as [IncomingMessage]
  connection.on('error', () => {})
  answer.on('error', () => {})
  let text = ''
  answer.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk
  })
  const stream = {
    text: () => text,
    messages: () =>
      text.split('\n').flatMap((line) => (line.startsWith('data: ') ? [JSON.parse(line.slice(6)) as object] : [])),
    async [Symbol.asyncDispose]() {
      if (connection.destroyed) return
      const closed = once(connection, 'close')
      connection.destroy()
      await closed
    },
  } as TestControlStream
  await expect.poll(() => stream.messages().length).toBeGreaterThan(0)
  return stream
}
