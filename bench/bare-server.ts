import { randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { answerTasks } from './helper.ts'

/**
 * The upper limit: `node:http` without any other work.
 * - `post`: reads and parses a JSON body, responds with `reply`.
 * - `get`: responds with `reply`, or 304 if the caller has `etag`.
 * - `stream`: serves Server-Sent Events; writes each POST to all clients in a plain loop.
 */
export type BareTask =
  | { kind: 'post'; status: number; reply: string }
  | { kind: 'get'; reply: string; etag: string }
  | { kind: 'stream' }

export type BareReply = { port: number }

function listener(task: BareTask): RequestListener {
  if (task.kind === 'post')
    return (request, response) => readJson(request, () => json(response, task.status, task.reply))
  if (task.kind === 'get') {
    return (request, response) => {
      if (request.headers['if-none-match'] !== task.etag) return json(response, 200, task.reply)
      response.writeHead(304, { ETag: task.etag })
      response.end()
    }
  }
  return streamListener()
}

function streamListener(): RequestListener {
  const clients = new Set<ServerResponse>()
  let seq = 0
  return (request, response) => {
    if (request.method === 'GET') {
      response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache' })
      response.write('data: {"type":"heartbeat"}\n\n')
      clients.add(response)
      response.on('close', () => clients.delete(response))
      return
    }
    readJson(request, (body) => {
      const id = randomUUID()
      const row = { id, seq: ++seq, ...(body as object), ip_address: '127.0.0.1', created_at: new Date().toISOString() }
      const frame = Buffer.from(`id: ${seq}\ndata: ${JSON.stringify({ type: 'event', data: row })}\n\n`)
      for (const client of clients) client.write(frame)
      json(response, 201, JSON.stringify({ ok: true, id }))
    })
  }
}

function readJson(request: IncomingMessage, done: (body: unknown) => void): void {
  const chunks: Buffer[] = []
  request.on('data', (chunk) => chunks.push(chunk))
  request.on('end', () => done(JSON.parse(Buffer.concat(chunks).toString())))
}

function json(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, {
    'Content-Type': 'application/json; charset=utf-8',
    'Content-Length': Buffer.byteLength(text),
  })
  response.end(text)
}

answerTasks<BareTask, BareReply>(
  (task) =>
    new Promise((resolve) => {
      const server = createServer(listener(task))
      server.listen(0, '127.0.0.1', () => resolve({ port: (server.address() as AddressInfo).port }))
    }),
)
