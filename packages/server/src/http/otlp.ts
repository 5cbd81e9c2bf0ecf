import { Readable } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { limits } from '@wardline/contract'
import type {
  FastifyRequest,
  onRequestHookHandler,
  onSendHookHandler,
  preParsingHookHandler,
  RequestPayload,
} from 'fastify'
import { AppError } from '../errors.ts'
import { type RoomOwner, SharedRoom } from '../shared-room.ts'

// OTLP/HTTP (opentelemetry.io/docs/specs/otlp): exporters send a bearer, and read answers in the form of their request.

export const protobufType = 'application/x-protobuf'

/** Whether the request has a JSON body, and so gets a JSON answer. */
export const isJsonRequest = ({ headers }: FastifyRequest): boolean =>
  (headers['content-type'] ?? '').startsWith('application/json')

/** The key that a request of an exporter presents as bearer. */
export const bearerOf = ({ headers }: FastifyRequest): string | undefined =>
  /^Bearer +(\S+)$/i.exec(headers.authorization ?? '')?.[1]

/** Takes the key from `Authorization: Bearer` where X-Monitor-Key is absent. */
export const bearerKey: onRequestHookHandler = (request, _reply, done) => {
  const bearer = bearerOf(request)
  if (bearer !== undefined && request.headers['x-monitor-key'] === undefined) {
    request.headers['x-monitor-key'] = bearer
    request.hasKeyAsBearer = true
  }
  done()
}

/** Bodies that are read or processed, together: 32 of the largest, of which one key has at most half. */
const allBodyBytes = 128 * 1024 * 1024
/** Memory of a decompressor, see zlib's zconf.h: its window and state. */
const decompressorBytes = 48 * 1024
const firstBytes = 16 * 1024

const tooLarge = (encoding: string) =>
  new AppError(
    'too_large',
    `The body has more than ${limits.otlpBytes / 1024 / 1024} MiB${encoding === 'gzip' ? ' when inflated' : ''}.`,
  )

/**
 * A body as far as it is read. It is copied into one buffer that grows, because a client can send each byte alone, and a
 * buffer for each would take a hundred times its memory.
 */
class HeldBody {
  readonly #room: SharedRoom
  readonly #owner: RoomOwner
  #held = 0
  #bytes = Buffer.alloc(0)
  #length = 0

  constructor(room: SharedRoom, owner: RoomOwner) {
    this.#room = room
    this.#owner = owner
  }

  hold(bytes: number): void {
    if (!this.#room.take(bytes, this.#owner)) {
      throw new AppError('overloaded', 'Too many bodies of telemetry are being read.', 1)
    }
    this.#held += bytes
  }

  push(chunk: Buffer, encoding: string): void {
    const length = this.#length + chunk.length
    if (length > limits.otlpBytes) throw tooLarge(encoding)
    if (length > this.#bytes.length) {
      const size = Math.min(Math.max(length, 2 * this.#bytes.length, firstBytes), limits.otlpBytes)
      this.hold(size - this.#bytes.length)
      const grown = Buffer.allocUnsafe(size)
      this.#bytes.copy(grown, 0, 0, this.#length)
      this.#bytes = grown
    }
    chunk.copy(this.#bytes, this.#length)
    this.#length = length
  }

  get bytes(): Buffer {
    return this.#bytes.subarray(0, this.#length)
  }

  release(): void {
    this.#room.give(this.#held, this.#owner)
    this.#held = 0
    this.#bytes = Buffer.alloc(0)
  }
}

/** Reads what a client sends. Rejects with AppError. */
function readBody(payload: RequestPayload, encoding: string, body: HeldBody): Promise<{ encodedLength: number }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ encodedLength: number }>()
  const source = payload as Readable
  let encodedLength = 0
  const gunzip = encoding === 'gzip' ? createGunzip() : undefined
  const stop = (fault: unknown) => {
    // What follows is discarded: the next request of the connection comes after it.
    source.off('data', take).resume()
    gunzip?.destroy()
    reject(fault)
  }
  const push = (chunk: Buffer) => {
    try {
      body.push(chunk, encoding)
    } catch (fault) {
      stop(fault)
    }
  }
  const take = (chunk: Buffer) => {
    encodedLength += chunk.length
    if (encodedLength > limits.otlpBytes) stop(tooLarge(''))
    else if (!gunzip) push(chunk)
    // The client waits while its bytes are inflated.
    else if (!gunzip.write(chunk)) source.pause()
  }
  gunzip?.on('data', push)
  gunzip?.on('drain', () => source.resume())
  gunzip?.on('error', () => stop(new AppError('invalid', 'The body is not gzip.')))
  gunzip?.on('end', () => resolve({ encodedLength }))
  source.on('data', take)
  source.on('end', () => (gunzip ? gunzip.end() : resolve({ encodedLength })))
  source.on('error', () => stop(new AppError('invalid', 'The request ended before its body.')))
  return promise
}

/** Reads bodies of OTLP within a room that their keys share: connections with open bodies must not fill the memory. */
export class OtlpBodies {
  readonly #room: SharedRoom
  readonly #held = new WeakMap<FastifyRequest, HeldBody>()

  constructor(bytes: number = allBodyBytes) {
    this.#room = new SharedRoom(bytes)
  }

  /** Reads and inflates the body of a request. */
  readonly read: preParsingHookHandler = (request, _reply, payload, done) => {
    const body = new HeldBody(this.#room, { keyId: request.principal.keyId })
    this.#held.set(request, body)
    const encoding = request.headers['content-encoding'] ?? 'identity'
    try {
      if (encoding !== 'identity' && encoding !== 'gzip') {
        throw new AppError('unsupported_media_type', 'Content-Encoding must be gzip, or absent.')
      }
      if (Number(request.headers['content-length'] ?? 0) > limits.otlpBytes) throw tooLarge('')
      if (encoding === 'gzip') body.hold(decompressorBytes)
      readBody(payload, encoding, body).then(
        ({ encodedLength }) => {
          const read = Readable.from(body.bytes.length > 0 ? [body.bytes] : [])
          done(null, Object.assign(read, { receivedEncodedLength: encodedLength }))
        },
        (fault) => done(fault),
      )
    } catch (fault) {
      done(fault as Error)
    }
  }

  /** Gives back the room once the request is answered. */
  readonly release: onSendHookHandler<unknown> = (request, _reply, payload, done) => {
    this.#held.get(request)?.release()
    done(null, payload)
  }
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
