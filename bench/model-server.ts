import { Agent, createServer, type RequestListener, request as startRequest } from 'node:http'
import type { AddressInfo } from 'node:net'
import { answerTasks } from './helper.ts'
import { preciseNow } from './statistics.ts'

/**
 * - `provider`: a provider of models whose streams send the time of each event, `events` of them, one each `everyMs`;
 *   0 events: a stream that stays open and idle.
 * - `proxy`: the bare limit of the gateway, which passes requests and answers on and does nothing else.
 */
export type ModelServerTask = { kind: 'provider' } | { kind: 'proxy'; port: number }

const provider: RequestListener = (request, response) => {
  request.resume()
  const { searchParams } = new URL(request.url!, 'http://localhost')
  let left = Number(searchParams.get('events'))
  const everyMs = Number(searchParams.get('everyMs'))
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  response.write(`data: ${preciseNow()}\n\n`)
  if (left === 0) return
  const timer = setInterval(() => {
    left -= 1
    if (left > 0) return void response.write(`data: ${preciseNow()}\n\n`)
    clearInterval(timer)
    response.end('data: [DONE]\n\n')
  }, everyMs)
  response.on('close', () => clearInterval(timer))
}

function proxyTo(port: number): RequestListener {
  const agent = new Agent({ keepAlive: true })
  return (request, response) => {
    const { method, url, headers } = request
    const outgoing = startRequest({ agent, port, host: '127.0.0.1', method, path: url, headers }, (answer) => {
      response.writeHead(answer.statusCode!, answer.headers)
      response.flushHeaders()
      answer.pipe(response)
    })
    outgoing.on('error', () => response.destroy())
    response.on('close', () => outgoing.destroy())
    request.pipe(outgoing)
  }
}

answerTasks((task: ModelServerTask) => {
  const server = createServer(task.kind === 'provider' ? provider : proxyTo(task.port))
  return new Promise<{ port: number }>((resolve) => {
    server.listen(0, '127.0.0.1', 4_096, () => resolve({ port: (server.address() as AddressInfo).port }))
  })
})
