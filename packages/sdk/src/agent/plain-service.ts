import type { ClientRequest, IncomingMessage, RequestOptions } from 'node:http'
import {
  type Answer,
  type Call,
  invalidAnswer,
  isPlain,
  late,
  maxBytes,
  methodOf,
  noAnswer,
  parsedObject,
  retryAfterMs,
  Service,
  turningTimeout,
} from '../service.ts'
import { suspendedHeader } from '../wire.ts'

/**
 * Client for the service over `node:http`, because loading `fetch` takes longer than the rest of a hook. Sends each
 * request once. No request runs past the deadline, which is a time of `performance.now()`.
 */
export class PlainService extends Service {
  readonly #deadline: number

  constructor(settings: { url: string; key: string; instanceId: string }, deadline: number) {
    super(settings)
    this.#deadline = deadline
  }

  override async call(path: string, call: Call): Promise<Answer> {
    const url = this.url(path)
    const ms = Math.max(1, Math.min(call.timeoutMs, this.#deadline - performance.now()))
    try {
      const { request } = await (url.protocol === 'https:' ? load('node:https') : load('node:http'))
      const { body } = call
      const sized =
        body === undefined ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }
      const headers = { ...this.headers, ...sized, ...call.headers }
      const options = { method: methodOf(call), headers }
      const open: Open = (onAnswer) => request(url, options as RequestOptions, onAnswer)
      const answer = await send(open, body, Math.round(ms))
      this.readSuspension(answer.header(suspendedHeader))
      return answer
    } catch (fault) {
      const { code, message } = fault as { code?: string; message: string }
      return noAnswer(code ?? message)
    }
  }
}

/**
 * Loads a module without `fetch`: `import` reads all exports of `node:http`, which loads `fetch` too. Node before 20.16
 * has only `import`.
 */
const load = async <Name extends 'node:http' | 'node:https'>(name: Name) =>
  process.getBuiltinModule?.(name) ?? (await import(name))

type Open = (onAnswer: (message: IncomingMessage) => void) => ClientRequest

function send(open: Open, body: string | undefined, ms: number): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const request = open((message) => collect(message, resolve, reject))
    const stopWaiting = turningTimeout(ms, () => request.destroy(new Error(`${late} ${ms} ms`)))
    request.on('error', reject).on('close', () => {
      stopWaiting()
      // The connection can close without an error, for example after a protocol switch.
      reject(new Error('the connection was closed'))
    })
    request.end(body)
  })
}

function collect(message: IncomingMessage, done: (answer: Answer) => void, failed: (fault: Error) => void): void {
  const parts: Buffer[] = []
  let bytes = 0
  const { statusCode = 0, headers } = message
  message.on('data', (part: Buffer) => {
    bytes += part.length
    parts.push(part)
    if (bytes > maxBytes || !isPlain(headers['content-encoding'])) message.destroy(new Error(invalidAnswer))
  })
  message.on('error', failed)
  message.on('end', () => {
    const header = (name: string) => headers[name]?.toString() ?? null
    const body = parsedObject(Buffer.concat(parts).toString())
    done({ status: statusCode, body, header, retryAfterMs: retryAfterMs(header('retry-after')) })
  })
}
