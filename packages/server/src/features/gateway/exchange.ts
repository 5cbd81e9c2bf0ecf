import { type IncomingMessage, Agent as PlainAgent, request as requestPlain, type ServerResponse } from 'node:http'
import { request as requestTls, Agent as TlsAgent } from 'node:https'
import { Readable } from 'node:stream'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Upstream } from '../../config/gateway.ts'
import type { RoomOwner, SharedRoom } from '../../shared-room.ts'
import type { CallBytes } from './call-body.ts'
import { type Format, type FormatError, formats } from './formats.ts'
import { type Usage, UsageReader } from './usage.ts'

/** A model may think for minutes before the first byte; nothing at all for longer is a dead connection. */
const upstreamIdleMs = 10 * 60_000
/** Idle connections to a provider, for calls that follow. */
const keptSockets = 32

const agents = {
  'http:': new PlainAgent({ keepAlive: true, maxFreeSockets: keptSockets }),
  'https:': new TlsAgent({ keepAlive: true, maxFreeSockets: keptSockets }),
}

/** After a chunk of this size, two megabytes more can come in the same turn of the event loop: they wait for the next. */
export const largeChunk = 16 * 1024
/** Of a body, sent in one turn of the event loop: with TLS it is also encrypted in it. */
const sentInTurn = 512 * 1024

/** Headers of one connection, not of the message (RFC 9110, section 7.6.1). */
const hopByHop = ['connection', 'keep-alive', 'proxy-connection', 'te', 'trailer', 'transfer-encoding', 'upgrade']
const ofConnection = new Set([...hopByHop, 'proxy-authenticate', 'proxy-authorization'])
/**
 * Headers of a request that are not passed on: the caller's key wherever it may be, what the gateway sets itself, and
 * accept-encoding, so that the usage of the answer can be read.
 */
const ofGateway = new Set([
  ...ofConnection,
  'host',
  'content-length',
  'expect',
  'accept-encoding',
  'authorization',
  'x-api-key',
  'x-goog-api-key',
  'x-monitor-key',
  'wardline-instance',
  'cookie',
])

/** Returns raw headers without the given ones and those that the header `connection` names. */
function withoutHeaders(raw: readonly string[], connection: string | undefined, names: ReadonlySet<string>): string[] {
  const named = new Set(connection?.split(',').map((name) => name.trim().toLowerCase()))
  const kept: string[] = []
  for (let place = 0; place + 1 < raw.length; place += 2) {
    const name = raw[place]!.toLowerCase()
    if (!names.has(name) && !named.has(name)) kept.push(raw[place]!, raw[place + 1]!)
  }
  return kept
}

export interface ExchangeResult {
  /** Of the answer that the client received; null if it received none. */
  status: number | null
  /** `cut`: the agent was suspended; `left`: the client closed the connection; `broken`: the upstream did. */
  end: 'complete' | 'refused' | 'cut' | 'left' | 'broken'
  usage: Usage
  /** Whether the upstream may have received the request. */
  isSent: boolean
  isStream: boolean
  /** See UsageReader. */
  uncountedBytes: number
}

/** Gets a copy of an answer while it passes; the next bytes wait for what it returns. */
export type AnswerReader = (chunk: Buffer) => Promise<void> | undefined

/** Returns a body as a stream that leaves others their turns of the event loop. */
async function* inTurns({ blocks }: CallBytes): AsyncGenerator<Buffer> {
  let sent = 0
  for (const block of blocks) {
    if (sent > sentInTurn) {
      sent = 0
      await nextTurn()
    }
    yield block
    sent += block.length
  }
}

/** One call of an agent: passes the request on and the answer back, and can be cut at any moment. */
export class Exchange {
  readonly #request: IncomingMessage
  readonly #response: ServerResponse
  readonly #upstream: Upstream
  readonly #format: Format
  #outgoing: ReturnType<typeof requestPlain> | undefined
  #reader: UsageReader | undefined
  #openCopy: ((isStream: boolean) => AnswerReader) | undefined
  #copy: AnswerReader | undefined
  #isEventStream = false
  #isLengthKnown = false
  #isSent = false
  /** Whether the gateway itself answered, with an error. */
  #isAnswered = false
  #isBehind = false
  #isPassing = false
  #end: ExchangeResult['end'] | undefined
  #unsent: { room: SharedRoom; owner: RoomOwner } | undefined
  #leaveBody = () => {}
  /** Resolves when the body is sent and not needed any more, or the call is over. */
  readonly bodyLeft: Promise<void>
  #hasBegun = false
  /** Ends the wait for a client that reads slowly. */
  #goOn = () => {}
  /** Is called when the first byte of the answer's body arrives. */
  onFirstByte: () => void = () => {}
  readonly ended: Promise<ExchangeResult>

  constructor(request: IncomingMessage, response: ServerResponse, upstream: Upstream) {
    this.#request = request
    this.#response = response
    this.#upstream = upstream
    this.#format = formats[upstream.kind]
    this.bodyLeft = new Promise((resolve) => (this.#leaveBody = resolve))
    this.ended = new Promise((resolve) => {
      response.once('close', () => {
        this.#end ??= response.writableFinished ? 'complete' : 'left'
        // A provider that goes on generating for a client that left charges for it.
        this.#outgoing?.destroy()
        this.#leaveBody()
        this.#goOn()
        const usage = this.#reader?.end() ?? {}
        resolve({
          status: response.headersSent ? response.statusCode : null,
          end: this.#end,
          usage,
          isSent: this.#isSent,
          isStream: this.#isEventStream,
          uncountedBytes: this.#reader?.uncountedBytes ?? 0,
        })
      })
    })
  }

  /** Passes a copy of the answer, if it is not compressed, to a reader that `open` returns. Call before `pass`. */
  copyTo(open: (isStream: boolean) => AnswerReader): void {
    this.#openCopy = open
  }

  get isOver(): boolean {
    return this.#end !== undefined || this.#response.destroyed
  }

  /** Answers with an error in the provider's format, unless the answer has begun. */
  refuse(error: FormatError, retryAfterSeconds?: number): void {
    if (this.isOver || this.#response.headersSent) return
    this.#end = 'refused'
    this.#answer(error, retryAfterSeconds)
  }

  #answer(error: FormatError, retryAfterSeconds?: number): void {
    const body = this.#format.errorBody(error)
    this.#isAnswered = true
    this.#response.writeHead(error.status, {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
      'cache-control': 'no-store',
      // The body of a refused request may still be on its way.
      ...(this.#request.complete ? {} : { connection: 'close' }),
      ...(retryAfterSeconds === undefined ? {} : { 'retry-after': String(retryAfterSeconds) }),
      // The libraries of OpenAI and Anthropic ignore a Retry-After of more than a minute, and retry at once.
      ...(error.isFinal ? { 'x-should-retry': 'false' } : {}),
    })
    this.#response.end(body)
  }

  /**
   * Says that the agent was suspended, and passes nothing more on; the connections end with `hangUp`. Returns false if the
   * call is over.
   */
  cut(error: FormatError): boolean {
    if (this.isOver) return false
    this.#end = 'cut'
    if (this.#response.headersSent) this.#sayError(error)
    else this.#answer(error)
    return true
  }

  /** Closes the connection to the upstream, and breaks an answer off that has begun. */
  hangUp(): void {
    this.#outgoing?.destroy()
    const { socket } = this.#response
    if (!socket || this.#isAnswered) return
    if (this.#isBehind) socket.destroy()
    else socket.destroySoon()
  }

  #sayError(error: FormatError): void {
    const { socket, writableEnded } = this.#response
    if (!socket) return
    // A reader that is behind must not keep the connection open.
    this.#isBehind = socket.writableLength > 0
    // Within an announced length, what is added would stand for the rest of the answer and make it complete.
    if (!this.#isEventStream || this.#isLengthKnown || this.#isBehind || writableEnded) return
    // The empty line ends an event that was cut in the middle.
    this.#response.write(`\n\n${this.#format.errorEvent(error)}`)
    // Now, not at the end of the turn, in which hundreds of calls may be cut.
    socket.uncork()
  }

  /**
   * Sends the request to the upstream. `path`: below the name of the upstream, with its query. `room`: for what a client
   * that reads slowly has not read.
   */
  pass(path: string, body: CallBytes, room: SharedRoom, owner: RoomOwner): void {
    this.#unsent = { room, owner }
    this.#send(path, body, true)
  }

  #send(path: string, sent: CallBytes, mayReuse: boolean): void {
    let body: CallBytes | undefined = sent
    const { url, key } = this.#upstream
    const { method, headers, rawHeaders } = this.#request
    const [keyName, keyValue] = this.#format.keyHeader(key)
    const kept = withoutHeaders(rawHeaders, headers.connection, ofGateway)
    const own = ['host', url.host, keyName, keyValue, 'accept-encoding', 'identity']
    if (method !== 'GET') own.push('content-length', String(sent.length))
    const send = url.protocol === 'https:' ? requestTls : requestPlain
    const outgoing = send({
      agent: mayReuse && agents[url.protocol as keyof typeof agents],
      host: url.hostname.replace(/^\[|\]$/g, ''),
      port: url.port,
      method,
      path: `${url.pathname === '/' ? '' : url.pathname}${path}`,
      headers: [...kept, ...own] as never,
      timeout: upstreamIdleMs,
    })
    this.#outgoing = outgoing
    this.#isSent = true
    outgoing.on('timeout', () => outgoing.destroy(new Error('timeout')))
    outgoing.on('error', ({ code, syscall }: NodeJS.ErrnoException) => {
      if (syscall === 'connect' || syscall === 'getaddrinfo') this.#isSent = false
      // The provider closed an idle connection before it read the request. Others may be as old: repeat on a new one.
      const isClosed = outgoing.reusedSocket && (code === 'ECONNRESET' || code === 'EPIPE')
      if (isClosed && body && !this.isOver && !this.#response.headersSent) this.#send(path, body, false)
      else this.#fail()
    })
    // An answer can take minutes: it does not hold the body, which is needed only to send it again.
    const drop = () => {
      body = undefined
      this.#leaveBody()
    }
    outgoing.on('finish', () => {
      if (!outgoing.reusedSocket) drop()
    })
    outgoing.on('response', (answer) => {
      drop()
      this.#passBack(answer)
    })
    const [only, ...more] = sent.blocks
    if (more.length > 0) Readable.from(inTurns(sent)).pipe(outgoing)
    else outgoing.end(only)
  }

  #fail(answer?: IncomingMessage): void {
    if (this.isOver) return
    const rest = answer?.read() as Buffer | null | undefined
    if (rest) {
      void this.#copyOf(rest)
      this.#response.write(rest)
    }
    this.#end = 'broken'
    const error: FormatError = { status: 502, message: `The upstream ${this.#upstream.name} does not answer.` }
    if (this.#response.headersSent) {
      this.#sayError(error)
      this.hangUp()
    } else this.#answer(error)
  }

  #passBack(answer: IncomingMessage): void {
    if (this.isOver) return void answer.destroy()
    const { statusCode: status = 502, headers, rawHeaders, statusMessage } = answer
    // The text of such an answer can have parts of the key, and a redirect could lead anywhere.
    const refusal = status === 401 ? 'does not accept the key of the gateway' : 'answers with a redirect'
    if (status === 401 || (status >= 300 && status < 400)) {
      answer.destroy()
      this.refuse({ status: 502, message: `The upstream ${this.#upstream.name} ${refusal}.` })
      return
    }
    const type = headers['content-type'] ?? ''
    const isPlain = headers['content-encoding'] === undefined
    this.#isEventStream = type.startsWith('text/event-stream') && isPlain
    this.#isLengthKnown = headers['content-length'] !== undefined
    this.#reader = isPlain ? new UsageReader(this.#upstream.kind, this.#isEventStream) : undefined
    this.#copy = isPlain ? this.#openCopy?.(this.#isEventStream) : undefined
    this.#response.writeHead(status, statusMessage, withoutHeaders(rawHeaders, headers.connection, ofConnection))
    // Clients wait for the head of a stream, whose first event may come minutes later.
    this.#response.flushHeaders()
    this.#response.on('drain', () => this.#goOn())
    answer.on('readable', () => void this.#passOn(answer))
    answer.on('end', () => this.#response.end())
    answer.on('error', () => this.#fail(answer))
    answer.on('aborted', () => this.#fail(answer))
  }

  async #passOn(answer: IncomingMessage): Promise<void> {
    if (this.#isPassing) return
    this.#isPassing = true
    while (!this.isOver) {
      const chunk = answer.read() as Buffer | null
      if (!chunk) break
      if (!this.#hasBegun) this.onFirstByte()
      this.#hasBegun = true
      const read = this.#copyOf(chunk)
      if (!this.#response.write(chunk)) await this.#drained()
      if (read) await read
      else if (chunk.length >= largeChunk) await nextTurn()
    }
    this.#isPassing = false
  }

  /** Resolves when the client has read on. What waits until then takes room; without room the answer is broken off. */
  async #drained(): Promise<void> {
    // As much again waits behind what is to be sent.
    const bytes = 2 * this.#response.writableLength
    const { room, owner } = this.#unsent!
    if (!room.take(bytes, owner)) {
      this.#outgoing?.destroy()
      this.#fail()
      return
    }
    await new Promise<void>((resolve) => (this.#goOn = resolve))
    room.give(bytes, owner)
  }

  #copyOf(chunk: Buffer): Promise<void> | undefined {
    this.#reader?.push(chunk)
    return this.#copy?.(chunk)
  }
}

/**
 * Cuts calls. All clients hear of it before the first connection is closed, because closing those of hundreds of calls
 * takes longer than writing to them.
 */
export function cutAll(exchanges: Iterable<Exchange>, error: FormatError): void {
  const cut = [...exchanges].filter((exchange) => exchange.cut(error))
  setImmediate(() => {
    for (const exchange of cut) exchange.hangUp()
  })
}
