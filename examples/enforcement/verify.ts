// Shared by all receivers of enforcement calls: verifies signatures by Standard Webhooks 1.0, refuses old calls, never
// goes back to an older control version, and answers only after the action has taken effect.

import { AsyncLocalStorage } from 'node:async_hooks'
import { createHmac, timingSafeEqual } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer, request as httpRequest, type IncomingHttpHeaders } from 'node:http'
import { request as httpsRequest } from 'node:https'

export interface Call {
  action: 'suspend' | 'resume' | 'test'
  /** Lower-case letters, digits, _ and -; null for a test. */
  instance_id: string | null
  version: number | null
  reason: string | null
  containment_id: string | null
  tags: string[]
  at: string
}

/** Maximum age of a call in seconds: a recorded one cannot be replayed later. */
const toleranceSeconds = 5 * 60
/** Far above the size of a call, about 2 kB. */
const maxBytes = 64 * 1024
/** Far above the answers that the levers read, so that a broken provider cannot fill the memory. */
const maxAnswerBytes = 1024 * 1024
/** Milliseconds for a call with all its requests: less than the caller's timeout of 15 seconds. */
const callMs = 13_000

const required = (name: string): string => {
  const value = process.env[name]
  if (!value) throw new Error(`${name} must be set.`)
  return value
}
export const setting = (name: string, unset?: string): string => process.env[name] || (unset ?? required(name))

/** Returns a secret from the file that `<name>_FILE` names, else from `name`. Read for each use, since secrets rotate. */
export function secret(name: string): string {
  const file = process.env[`${name}_FILE`]
  return file ? readFileSync(file, 'utf8').trim() : required(name)
}

const deadlines = new AsyncLocalStorage<AbortSignal>()
/** Aborts when the time of the call that is being handled is over. */
export const deadline = (): AbortSignal => deadlines.getStore() ?? AbortSignal.timeout(callMs)

/** Returns a function that runs the tasks of a name one at a time, in order. */
export function queues() {
  const last = new Map<string, Promise<unknown>>()
  return <T>(name: string, task: () => Promise<T>): Promise<T> => {
    const turn = (last.get(name) ?? Promise.resolve()).then(task)
    last.set(
      name,
      turn.catch(() => {}),
    )
    return turn
  }
}

/** Returns why a call is not authentic; undefined if it is. The body must be exactly as received. */
function faultOf(headers: IncomingHttpHeaders, body: string, key: Buffer): string | undefined {
  const { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signatures } = headers
  if (typeof id !== 'string' || typeof timestamp !== 'string' || typeof signatures !== 'string') return 'not signed'
  const age = Date.now() / 1_000 - Number(timestamp)
  if (!/^\d+$/.test(timestamp) || Math.abs(age) > toleranceSeconds) return 'too old, or of the future'
  const digest = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')
  const expected = Buffer.from(`v1,${digest}`)
  const given = signatures.split(' ').map((signature) => Buffer.from(signature))
  return given.some((one) => one.length === expected.length && timingSafeEqual(one, expected))
    ? undefined
    : 'not genuine'
}

export interface Target {
  url: string
  socketPath?: string
  method?: string
  headers?: Record<string, string>
  /** Sent as JSON, or as a form. */
  body?: unknown
}

export interface Answer {
  status: number
  text: string
  /** Seconds until the next attempt makes sense, if the provider says so. */
  retryAfter: number | undefined
}

/** A refusal of the provider. */
export class Refusal extends Error {
  readonly status: number
  readonly retryAfter: number | undefined

  constructor({ url, method = 'GET' }: Target, { status, retryAfter }: Answer) {
    // Neither path nor body: they may contain secrets.
    super(`${method} ${new URL(url).host} was answered ${status}`)
    this.status = status
    this.retryAfter = retryAfter
  }
}

/** Reads Retry-After, or X-Rate-Limit-Reset (seconds since 1970), which Okta sends instead. */
function retryAfterOf({ 'retry-after': pause, 'x-rate-limit-reset': reset }: IncomingHttpHeaders): number | undefined {
  if (pause !== undefined && /^\d{1,6}$/.test(pause)) return Number(pause)
  if (typeof reset !== 'string' || !/^\d{1,12}$/.test(reset)) return undefined
  return Math.max(1, Math.ceil(Number(reset) - Date.now() / 1_000))
}

/** Sends a request to the system that enforces the suspension; resolves with any answer. Redirects are not followed. */
export function exchange({ url, socketPath, method = 'GET', headers = {}, body }: Target): Promise<Answer> {
  const isForm = body instanceof URLSearchParams
  const text = body === undefined ? undefined : isForm ? body.toString() : JSON.stringify(body)
  const type = isForm ? 'application/x-www-form-urlencoded' : 'application/json'
  return new Promise((resolve, reject) => {
    const started = (url.startsWith('https:') ? httpsRequest : httpRequest)(
      url,
      {
        method,
        signal: deadline(),
        ...(socketPath === undefined ? {} : { socketPath }),
        headers: { ...(text === undefined ? {} : { 'content-type': type }), ...headers },
      },
      async (response) => {
        const chunks: Buffer[] = []
        let size = 0
        try {
          for await (const chunk of response as AsyncIterable<Buffer>) {
            size += chunk.length
            if (size > maxAnswerBytes) throw new Error('the answer is too long')
            chunks.push(chunk)
          }
          const { statusCode: status = 0, headers: received } = response
          const isRefused = status === 429 || status === 503
          const retryAfter = isRefused ? retryAfterOf(received) : undefined
          resolve({ status, text: Buffer.concat(chunks).toString('utf8'), retryAfter })
        } catch (fault) {
          reject(fault)
        }
      },
    )
    started.on('error', reject)
    started.end(text)
  })
}

/** Sends a request; resolves with the parsed body. Throws Refusal unless the status is one of `expected`. */
export async function send(target: Target, expected: readonly number[]): Promise<unknown> {
  const answer = await exchange(target)
  if (!expected.includes(answer.status)) throw new Refusal(target, answer)
  return answer.text === '' || answer.status === 304 ? undefined : JSON.parse(answer.text)
}

/**
 * Listens for calls. `move` carries out a suspension or resume and must be idempotent: a call is retried with the same
 * webhook-id until it gets a 2xx answer. `check` only tests whether `move` could work.
 */
export function serve(move: (call: Call & { instance_id: string }) => Promise<void>, check: () => Promise<void>): void {
  const key = Buffer.from(secret('WARDLINE_ENFORCEMENT_SECRET').replace(/^whsec_/, ''), 'base64')
  /** Newest version by instance. Store it in a file to keep it across restarts. */
  const newest = new Map<string, number>()
  const inTurn = queues()

  async function handle(call: Call): Promise<void> {
    const { instance_id, version } = call
    if (call.action === 'test') return check()
    if (instance_id === null || version === null || !/^[a-z0-9_-]{1,64}$/.test(instance_id)) throw new Error('no agent')
    await inTurn(instance_id, async () => {
      // A retry must not undo a newer call.
      if (version < (newest.get(instance_id) ?? 0)) return
      newest.set(instance_id, version)
      await move({ ...call, instance_id })
      console.log(`${call.action} ${instance_id} ${version}`)
    })
  }

  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    let size = 0
    for await (const chunk of request as AsyncIterable<Buffer>) {
      size += chunk.length
      if (size > maxBytes) break
      chunks.push(chunk)
    }
    const body = Buffer.concat(chunks).toString('utf8')
    const fault = size > maxBytes ? 'too long' : faultOf(request.headers, body, key)
    if (fault !== undefined) {
      console.log(`refused: ${fault}`)
      return response.writeHead(401, { connection: 'close' }).end(fault)
    }
    try {
      await deadlines.run(AbortSignal.timeout(callMs), () => handle(JSON.parse(body) as Call))
      response.writeHead(204).end()
    } catch (reason) {
      const isLate = ['AbortError', 'TimeoutError'].includes((reason as Error).name)
      console.log(`failed: ${isLate ? `not done within ${callMs / 1_000} seconds` : (reason as Error).message}`)
      // Wardline waits at least as long before it calls again.
      const pause = reason instanceof Refusal ? reason.retryAfter : undefined
      const headers = pause === undefined ? {} : { 'retry-after': String(pause) }
      response.writeHead(pause === undefined ? 502 : 503, headers).end('the lever could not be moved')
    }
  })
  server.listen(Number(process.env.PORT ?? 8090), process.env.HOST ?? '127.0.0.1', () => {
    const address = server.address()
    console.log(`listening on http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`)
  })
}
