// Shared by all receivers of enforcement calls: verifies signatures by Standard Webhooks 1.0, refuses old calls, never
// goes back to an older control version, and answers only after the action has taken effect.

import { createHmac, timingSafeEqual } from 'node:crypto'
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

const required = (name: string): string => {
  const value = process.env[name]
  if (!value) throw new Error(`${name} must be set.`)
  return value
}
export const setting = (name: string, unset?: string): string => process.env[name] || (unset ?? required(name))

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

/**
 * Sends a JSON request to the system that enforces the suspension. Rejects unless the status is one of `expected`;
 * resolves with the parsed body.
 */
export function send(
  target: { url: string; socketPath?: string; method?: string; headers?: Record<string, string>; body?: unknown },
  expected: readonly number[],
): Promise<unknown> {
  const { url, socketPath, method = 'GET', headers = {}, body } = target
  const text = body === undefined ? undefined : JSON.stringify(body)
  return new Promise((resolve, reject) => {
    const started = (url.startsWith('https:') ? httpsRequest : httpRequest)(
      url,
      {
        method,
        // Less than the caller's timeout of 15 seconds.
        signal: AbortSignal.timeout(13_000),
        ...(socketPath === undefined ? {} : { socketPath }),
        headers: { ...(text === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
      },
      async (response) => {
        const answer = Buffer.concat(await response.toArray()).toString('utf8')
        const { statusCode = 0 } = response
        if (!expected.includes(statusCode)) reject(new Error(`${method} was answered ${statusCode}`))
        else resolve(answer === '' || statusCode === 304 ? undefined : JSON.parse(answer))
      },
    )
    started.on('error', reject)
    started.end(text)
  })
}

/**
 * Listens for calls. `move` carries out a suspension or resume and must be idempotent: a call is retried with the same
 * webhook-id until it gets a 2xx answer. `check` only tests whether `move` could work.
 */
export function serve(move: (call: Call & { instance_id: string }) => Promise<void>, check: () => Promise<void>): void {
  const key = Buffer.from(required('WARDLINE_ENFORCEMENT_SECRET').replace(/^whsec_/, ''), 'base64')
  /** Newest version by instance. Store it in a file to keep it across restarts. */
  const newest = new Map<string, number>()
  /** Queues the calls of an instance, so that they run one at a time. */
  const turns = new Map<string, Promise<void>>()

  async function handle(call: Call): Promise<void> {
    const { instance_id, version } = call
    if (call.action === 'test') return check()
    if (instance_id === null || version === null || !/^[a-z0-9_-]{1,64}$/.test(instance_id)) throw new Error('no agent')
    const turn = (turns.get(instance_id) ?? Promise.resolve()).then(async () => {
      // A retry must not undo a newer call.
      if (version < (newest.get(instance_id) ?? 0)) return
      newest.set(instance_id, version)
      await move({ ...call, instance_id })
      console.log(`${call.action} ${instance_id} ${version}`)
    })
    const settled = turn.catch(() => {})
    turns.set(instance_id, settled)
    return turn
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
      await handle(JSON.parse(body) as Call)
      response.writeHead(204).end()
    } catch (reason) {
      console.log(`failed: ${(reason as Error).message}`)
      response.writeHead(502).end('the lever could not be moved')
    }
  })
  server.listen(Number(process.env.PORT ?? 8090), process.env.HOST ?? '127.0.0.1', () => {
    const address = server.address()
    console.log(`listening on http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`)
  })
}
