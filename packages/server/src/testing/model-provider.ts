import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type RequestListener, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

interface Received {
  method: string
  path: string
  headers: IncomingHttpHeaders
  body: string
  response: ServerResponse
  /** Resolves when the connection of the request is closed, at the latest after the answer. */
  closed: Promise<unknown>
}

interface ModelProvider extends AsyncDisposable {
  url: string
  received: Received[]
}

/** Starts a provider of models that answers each request by `answer`. */
export async function startProvider(answer: (received: Received) => void): Promise<ModelProvider> {
  const received: Received[] = []
  const listener: RequestListener = async (request, response) => {
    const closed = once(response, 'close')
    const body = Buffer.concat(await request.toArray()).toString()
    const { method = '', url = '', headers } = request
    const one = { method, path: url, headers, body, response, closed }
    received.push(one)
    answer(one)
  }
  const server = createServer(listener)
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await once(server.close(), 'close')
    },
  }
}
