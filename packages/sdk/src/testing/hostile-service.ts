import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'

export type Answerer = (request: IncomingMessage, response: ServerResponse, body: string) => void

/** Starts a server in place of the service that answers arbitrarily. Returns its url. */
export async function startHostileService(answer: Answerer): Promise<string> {
  const server = createServer((request, response) => {
    let body = ''
    request.setEncoding('utf8')
    request.on('data', (part) => {
      body += part
    })
    request.on('end', () => answer(request, response, body))
    response.on('error', () => {})
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

export function sendJson(response: ServerResponse, status: number, body: object, headers: Record<string, string> = {}) {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))
}

/** Answers like a service that has decoys, none of which match. */
export const answerPlainly: Answerer = ({ url = '' }, response) => {
  if (url.includes('/control')) return sendJson(response, 404, { error: 'no' })
  const headers = { 'x-wardline-decoys': 'some', etag: 'W/"0"' }
  const body = url.endsWith('/status')
    ? { suspended: false, reason: null }
    : url.includes('/check/')
      ? { matched: false }
      : { ok: true, ids: [], errors: [] }
  sendJson(response, 200, body, headers)
}
