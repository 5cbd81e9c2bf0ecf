import type { Socket } from 'node:net'
import type { FastifyReply } from 'fastify'
import { AppError } from '../errors.ts'

/** The answer that a stream takes over. */
export type StreamReply = FastifyReply

/** Delay in milliseconds that a client waits before it reconnects. */
const retryMs = 2_000

const head = [
  'HTTP/1.1 200 OK',
  'content-type: text/event-stream; charset=utf-8',
  'cache-control: no-store',
  'x-content-type-options: nosniff',
  // Proxies of the nginx family would otherwise hold frames back until a buffer is full.
  'x-accel-buffering: no',
  // The body ends with the connection (RFC 9112, section 6.3), so frames go out as they are.
  'connection: close',
].join('\r\n')

/** Sockets whose request asked for a stream: no request may follow on them. */
const claimed = new WeakSet<Socket>()

export const isClaimed = (socket: Socket): boolean => claimed.has(socket)

/** Reserves the connection for a stream before anything is awaited. Throws AppError `invalid`. */
export function claimSocket({ raw: { socket } }: StreamReply): void {
  // Without a socket this answer waits behind an earlier one of the same connection.
  if (!socket) throw new AppError('invalid', 'A stream cannot be pipelined behind another request.')
  claimed.add(socket)
}

/** The stream was refused: the connection may carry further requests. */
export function releaseSocket({ raw: { socket } }: StreamReply): void {
  if (socket) claimed.delete(socket)
}

function destroySocket(this: Socket): void {
  this.destroy()
}

/**
 * Node's HTTP parser would go on reading the socket and assert that requests are answered in order, which ends the
 * process. A `data` listener disconnects it; its `close` listener stays, because it frees the parser.
 */
function takeFromParser(socket: Socket): void {
  for (const event of ['data', 'end', 'drain', 'error', 'timeout']) socket.removeAllListeners(event)
  socket.setTimeout(0)
  // A client of a stream has nothing more to send, and one that ended its side looks the same as one that is gone.
  socket.on('data', destroySocket).on('end', destroySocket).on('error', destroySocket)
  socket.resume()
}

/**
 * Answers with Server-Sent Events (https://html.spec.whatwg.org/multipage/server-sent-events.html) and returns the bare
 * socket to write frames to; undefined when the client is gone already. Must not run inside a callback of the HTTP
 * parser. Letting go of request and response saves a sixth of the memory of a stream.
 */
export function openEventStream(reply: StreamReply): Socket | undefined {
  reply.hijack()
  const socket = reply.raw.socket
  if (!socket?.writable) {
    socket?.destroy()
    return undefined
  }
  reply.raw.detachSocket(socket)
  takeFromParser(socket)
  socket.write(`${head}\r\n\r\n`)
  return socket
}

/** One message: JSON holds no raw line break, so it is one `data:` line. `id` is what Last-Event-ID brings back. */
export function frame(json: string, id?: number): string {
  return `data: ${json}\n${id === undefined ? '' : `id: ${id}\n`}\n`
}

/** A message that clients hear only under its name; it leaves no mark on where a client resumes. */
export function namedFrame(event: string, json: string): string {
  return `event: ${event}\n${frame(json)}`
}

/** The first message of a stream, with the delay after which the client reconnects. */
export function firstFrame(json: string): string {
  return `data: ${json}\nretry: ${retryMs}\n\n`
}

/** Ends a stream with a different delay for each client, so that they do not all reconnect at once after a restart. */
export function closeEventStream(socket: Socket, delayMs: number): void {
  socket.write(`retry: ${Math.round(delayMs)}\n\n`)
  // A client that does not read would otherwise keep the process from ending.
  if (socket.writableLength > 0) socket.destroy()
  else socket.destroySoon()
}
