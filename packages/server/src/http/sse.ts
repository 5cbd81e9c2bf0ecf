import type { ServerResponse } from 'node:http'
import type { FastifyReply } from 'fastify'

/** Delay in milliseconds that a client waits before it reconnects. */
const retryMs = 2_000

/** Answers with Server-Sent Events (https://html.spec.whatwg.org/multipage/server-sent-events.html) and gives the raw answer. */
export function openEventStream(reply: FastifyReply): ServerResponse {
  reply.hijack()
  const response = reply.raw
  response.writeHead(200, {
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    // Proxies of the nginx family would otherwise hold frames back until a buffer is full.
    'x-accel-buffering': 'no',
  })
  return response
}

/** One message: JSON holds no raw line break, so it is one `data:` line. `id` is what Last-Event-ID brings back. */
export function frame(json: string, id?: number): string {
  return `data: ${json}\n${id === undefined ? '' : `id: ${id}\n`}\n`
}

/** The first message of a stream, with the delay after which the client reconnects. */
export function firstFrame(json: string): string {
  return `data: ${json}\nretry: ${retryMs}\n\n`
}

/** Says goodbye with a delay of its own for each client, so that a restart is not met by all of them at once. */
export function closeEventStream(response: ServerResponse, delayMs: number): void {
  response.end(`retry: ${Math.round(delayMs)}\n\n`)
}
