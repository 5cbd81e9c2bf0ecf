import type { FastifyRequest, onRequestHookHandler, onSendHookHandler } from 'fastify'

// OTLP/HTTP (opentelemetry.io/docs/specs/otlp): exporters send a bearer, and read answers in the form of their request.

export const protobufType = 'application/x-protobuf'

/** Whether the request has a JSON body, and so gets a JSON answer. */
export const isJsonRequest = ({ headers }: FastifyRequest): boolean =>
  (headers['content-type'] ?? '').startsWith('application/json')

/** Takes the key from `Authorization: Bearer` where X-Monitor-Key is absent. */
export const bearerKey: onRequestHookHandler = ({ headers }, _reply, done) => {
  const bearer = /^Bearer +(\S+)$/i.exec(headers.authorization ?? '')?.[1]
  if (bearer !== undefined) headers['x-monitor-key'] ??= bearer
  done()
}

function varint(value: number): number[] {
  const bytes: number[] = []
  for (let rest = value; ; rest = Math.floor(rest / 128)) {
    if (rest < 128) return [...bytes, rest]
    bytes.push((rest % 128) + 128)
  }
}

/** Encodes a message of protobuf: numbers, texts and messages by field number. */
export function protobufMessage(fields: Readonly<Record<number, number | string | Buffer>>): Buffer {
  const parts = Object.entries(fields).flatMap(([id, value]) => {
    if (typeof value === 'number') return [Buffer.from([...varint(Number(id) * 8), ...varint(value)])]
    const bytes = Buffer.from(value as string)
    return [Buffer.from([...varint(Number(id) * 8 + 2), ...varint(bytes.length)]), bytes]
  })
  return Buffer.concat(parts)
}

/** Codes of google.rpc.Status by HTTP status. */
const rpcCodes: Record<number, number> = { 400: 3, 401: 16, 403: 7, 404: 5, 413: 3, 415: 3, 429: 8, 500: 13, 503: 14 }
const retryAfterSeconds = 5

/** Turns the answer to a failed request into a google.rpc.Status, in the form of the request. */
export const otlpStatus: onSendHookHandler<unknown> = (request, reply, payload, done) => {
  if (reply.statusCode < 400 || typeof payload !== 'string') return done(null, payload)
  // Exporters retry after this status only, and nothing was stored.
  if (reply.getHeader('x-error-code') === 'database') reply.code(503).header('retry-after', retryAfterSeconds)
  const { error } = JSON.parse(payload) as { error: string }
  const code = rpcCodes[reply.statusCode] ?? 2
  const isJson = isJsonRequest(request)
  const answer = isJson ? JSON.stringify({ code, message: error }) : protobufMessage({ 1: code, 2: error })
  reply.header('content-type', isJson ? 'application/json; charset=utf-8' : protobufType)
  reply.header('content-length', Buffer.byteLength(answer))
  done(null, answer)
}
