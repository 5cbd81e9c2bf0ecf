import { Buffer } from 'node:buffer'
import { clearTimeout, setTimeout } from 'node:timers'
import { MonitorError } from './faults.ts'
import { plainLine } from './plain-line.ts'

export interface Answer {
  /** HTTP status; 0 if no response arrived in time. */
  status: number
  /** The parsed JSON body, or an empty object. */
  body: Record<string, unknown>
  header(name: string): string | null
  retryAfterMs: number | undefined
  /** Why there is no response, such as ECONNREFUSED. */
  fault?: string
}

export interface Call {
  /** JSON text. A call with a body is a POST. */
  body?: string
  headers?: Record<string, string>
  timeoutMs: number
}

/** Responses of the service have a few KiB; any other server at this address must not fill the memory. */
export const maxBytes = 1024 * 1024
export const unsigned = 'not signed by the deployment'
export const invalidAnswer = 'an answer that is compressed or too long'

/** Upper bound of Retry-After, so that a proxy cannot disable the kill switch for longer. */
const maxRetryAfterMs = 60_000

/** Parses `Retry-After`, in seconds or as a date, into milliseconds. */
export function retryAfterMs(value: string | null | undefined): number | undefined {
  if (!value) return undefined
  const ms = /^\s*\d+\s*$/.test(value) ? Number(value) * 1000 : Date.parse(value) - Date.now()
  return Number.isFinite(ms) ? retryWithin(ms) : undefined
}

export const retryWithin = (ms: number): number => Math.min(Math.max(ms, 0), maxRetryAfterMs)

export const isSuccess = ({ status }: Pick<Answer, 'status'>): boolean =>
  (status >= 200 && status < 300) || status === 304
/** Whether a retry may succeed; after 401 and 403 it does only once the key or its rights were changed. */
export const isPassing = ({ status }: Pick<Answer, 'status'>): boolean =>
  status < 400 || status >= 500 || status === 408 || status === 429
/** The service answers 429 instead of 401 once an address has sent many invalid keys. */
export const isBadKey = ({ status, header }: Pick<Answer, 'status'> & Partial<Answer>): boolean =>
  status === 401 || (status === 429 && header?.('x-error-code') === 'too_many_failures')
export const isRefused = ({ status }: Pick<Answer, 'status'>): boolean => status === 401 || status === 403

/** Returns the command that creates a key for an instance. All coding agents share a key by their default prefixes. */
export const keyCommand = (instanceId: string): string =>
  `wardline keys create --scope agent ${
    /^(claude-code|codex|cursor)-/.test(instanceId)
      ? "--name coding-agents --instance 'claude-code-*' --instance 'codex-*' --instance 'cursor-*'"
      : `--name ${instanceId} --instance ${instanceId}`
  }`

/** Returns the public part of a key, as shown by `wardline keys list`. */
const keyId = (key: string): string | undefined => /^wl_[a-z]+_([0-9a-z]{8})_/.exec(key)?.[1]

/** Calls routes below /api with the key of one agent. */
export class Service {
  readonly #base: URL
  readonly #key: string
  readonly #instanceId: string

  constructor({ url, key, instanceId }: { url: string; key: string; instanceId: string }) {
    this.#base = new URL(`${url.replace(/\/+$/, '')}/api/`)
    this.#key = key
    this.#instanceId = instanceId
  }

  url(path: string): URL {
    return new URL(path, this.#base)
  }

  get headers(): Record<string, string> {
    return { 'x-monitor-key': this.#key, 'accept-encoding': 'identity' }
  }

  /**
   * Never rejects. A request whose connection was lost is sent once more, because a kept-alive connection may have been
   * closed by the server. All requests of an agent may be repeated.
   */
  async call(path: string, call: Call): Promise<Answer> {
    const giveUp = new AbortController()
    // Not unref'ed, otherwise the process could end before the response.
    const timer = setTimeout(() => giveUp.abort(), call.timeoutMs)
    try {
      return await this.#send(path, call, giveUp.signal).catch(() => this.#send(path, call, giveUp.signal))
    } catch (fault) {
      return noAnswer(giveUp.signal.aborted ? `none within ${call.timeoutMs} ms` : faultName(fault))
    } finally {
      clearTimeout(timer)
    }
  }

  /** Does not follow redirects, which could forward the key to another host. */
  async #send(path: string, { body, headers }: Call, signal: AbortSignal): Promise<Answer> {
    const json: Record<string, string> = body === undefined ? {} : { 'content-type': 'application/json' }
    const response = await fetch(this.url(path), {
      method: body === undefined ? 'GET' : 'POST',
      headers: { ...this.headers, ...json, ...headers },
      ...(body === undefined ? {} : { body }),
      redirect: 'manual',
      signal,
    })
    const text = await boundedText(response)
    if (text === undefined) return noAnswer(invalidAnswer)
    return {
      status: response.status,
      body: parsedObject(text),
      header: (name) => response.headers.get(name),
      retryAfterMs: retryAfterMs(response.headers.get('retry-after')),
    }
  }

  /** Returns an error with advice for the developer about an unsuccessful response. */
  explain(answer: Pick<Answer, 'status'> & Partial<Answer>): MonitorError {
    const { status, fault } = answer
    const { host } = this.#base
    const id = keyId(this.#key)
    const key = id === undefined ? 'the key' : `the key ${id}`
    const remedy = `Create one where the service runs: ${keyCommand(this.#instanceId)}`
    if (fault === unsigned) {
      return new MonitorError(
        'unsigned',
        `The kill switch state from ${host} is not signed by a key of publicKey and is ignored. Either it was changed on the way, or publicKey belongs to another deployment.`,
      )
    }
    if (status === 0) {
      const cause = fault === undefined ? '' : ` (${fault})`
      return new MonitorError(
        'unreachable',
        `No answer from ${host}${cause}. Check that the service runs and that url is its address; the monitor keeps retrying.`,
      )
    }
    if (isBadKey(answer)) {
      return new MonitorError(
        'unauthorized',
        `${host} does not accept ${key} of ${this.#instanceId} (${status}). ${remedy}`,
      )
    }
    const said = typeof answer.body?.error === 'string' ? `: ${this.#withoutKey(answer.body.error)}` : '.'
    if (status === 403) {
      // Another key would not help against the limit of instances.
      const help = answer.header?.('x-error-code') === 'instance_limit' ? '' : ` ${remedy}`
      return new MonitorError(
        'unauthorized',
        `${host} does not allow ${key} for the instance ${this.#instanceId} (403)${said}${help}`,
      )
    }
    if (status >= 300 && status < 400) {
      return new MonitorError(
        'unexpected',
        `${host} answers with a redirect (${status}), which is not followed because it would receive the key. Set url to its target.`,
      )
    }
    return new MonitorError('unexpected', `${host} answers with ${status}${said}`)
  }

  /** A response may come from any server at this address and may repeat the key. */
  #withoutKey(text: string): string {
    return plainLine(text.replaceAll(this.#key, '[key]').slice(0, 200))
  }
}

export const noAnswer = (fault: string): Answer => ({
  status: 0,
  body: {},
  header: () => null,
  retryAfterMs: undefined,
  fault,
})

/** Compressed responses are refused, because a few KiB can decompress to gigabytes. */
export const isPlain = (encoding: string | null | undefined): boolean => /^(?:identity)?$/i.test(encoding ?? '')

/** Reads the body. Returns undefined and closes the connection if it is compressed or too long. */
async function boundedText({ headers, body }: Response): Promise<string | undefined> {
  const parts: Uint8Array[] = []
  let bytes = 0
  for await (const part of body ?? []) {
    bytes += part.length
    if (bytes > maxBytes || !isPlain(headers.get('content-encoding'))) return undefined
    parts.push(part)
  }
  return Buffer.concat(parts).toString()
}

function faultName(fault: unknown): string {
  const { name, code, cause } = fault as { name?: string; code?: unknown; cause?: { code?: unknown } }
  const known = cause?.code ?? code ?? name
  return typeof known === 'string' ? known : 'unknown'
}

export function parsedObject(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
  } catch {
    return {}
  }
}
