import { type IncomingMessage, type RequestOptions, request as requestPlainly } from 'node:http'
import { type Answer, type Call, retryAfterMs, Service } from '../service.ts'

/** The service answers in a few hundred bytes; whatever else listens there must not fill the memory. */
const mostBytes = 1024 * 1024

/**
 * The service over `node:http`: loading `fetch` takes longer than everything else that a hook does. Each request is sent
 * once, and none takes longer than until the deadline, on the clock of `performance`.
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
      const request = url.protocol === 'https:' ? (await import('node:https')).request : requestPlainly
      const { body } = call
      const sized =
        body === undefined ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }
      const headers = { ...this.headers, ...sized, ...call.headers }
      const options = { method: body === undefined ? 'GET' : 'POST', headers }
      return await send((onAnswer) => request(url, options as RequestOptions, onAnswer), body, Math.round(ms))
    } catch (fault) {
      const { code, message } = fault as { code?: string; message: string }
      return { status: 0, body: {}, header: () => null, retryAfterMs: undefined, fault: code ?? message }
    }
  }
}

type Open = (onAnswer: (message: IncomingMessage) => void) => ReturnType<typeof requestPlainly>

function send(open: Open, body: string | undefined, ms: number): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const request = open((message) => collect(message, resolve, reject))
    const timer = setTimeout(() => request.destroy(new Error(`none within ${ms} ms`)), ms)
    request.on('error', reject).on('close', () => clearTimeout(timer))
    request.end(body)
  })
}

function collect(message: IncomingMessage, done: (answer: Answer) => void, failed: (fault: Error) => void): void {
  let text = ''
  message.setEncoding('utf8')
  message.on('data', (part: string) => {
    text += part
    if (text.length > mostBytes) message.destroy(new Error('an answer that does not end'))
  })
  message.on('error', failed)
  message.on('end', () => {
    const { statusCode = 0, headers } = message
    const header = (name: string) => headers[name]?.toString() ?? null
    done({ status: statusCode, body: parsedObject(text), header, retryAfterMs: retryAfterMs(header('retry-after')) })
  })
}

function parsedObject(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
  } catch {
    return {}
  }
}
