import { Buffer } from 'node:buffer'
import { clearTimeout, setTimeout } from 'node:timers'
import { codingTools } from './coding-tools.ts'
import { MonitorError } from './faults.ts'
import { plainLine } from './plain-line.ts'
import { announcedSuspension, suspendedHeader } from './wire.ts'

export interface Answer {
  /** HTTP status; 0 when no answer came in time. */
  status: number
  /** Parsed JSON of the body; empty object if the body is not a JSON object. */
  body: Record<string, unknown>
  header(name: string): string | null
  retryAfterMs: number | undefined
  /** Why no answer came, such as ECONNREFUSED. */
  fault?: string
}

export interface Call {
  /** JSON. Calls with a body use POST by default, others GET. */
  body?: string
  method?: 'PUT'
  headers?: Record<string, string>
  timeoutMs: number
}

export const methodOf = ({ method, body }: Partial<Call>): string => method ?? (body === undefined ? 'GET' : 'POST')

/** Answers of the service have a few KiB. The limit keeps any other server at the url from filling the memory. */
export const maxBytes = 1024 * 1024
export const unsigned = 'not signed by the deployment'
export const late = 'none within'
export const invalidAnswer = 'an answer that is compressed or too long'

/** Maximum for Retry-After, so that a proxy cannot block the kill switch for longer. */
const maxRetryAfterMs = 60_000

/** Parts in which a wait for an answer is counted. */
const turns = 4

/**
 * Calls `giveUp` after a wait in which the event loop came round. A loop that was held runs its timers before it reads
 * what has arrived, so a single timer would take a held loop for a service without an answer. Returns a function that
 * cancels it.
 */
export function turningTimeout(ms: number, giveUp: () => void): () => void {
  let left = turns
  const wait = () => {
    left -= 1
    // Not unref'ed: the process would otherwise end before the answer arrives.
    return setTimeout(() => {
      if (left === 0) giveUp()
      else timer = wait()
    }, ms / turns)
  }
  let timer = wait()
  return () => clearTimeout(timer)
}

/** Parses `Retry-After` (seconds or a date) into milliseconds. */
export function retryAfterMs(value: string | null | undefined): number | undefined {
  if (!value) return undefined
  const ms = /^\s*\d+\s*$/.test(value) ? Number(value) * 1000 : Date.parse(value) - Date.now()
  return Number.isFinite(ms) ? retryWithin(ms) : undefined
}

export const retryWithin = (ms: number): number => Math.min(Math.max(ms, 0), maxRetryAfterMs)

/** Whether there was no answer because the time was over, rather than no connection. */
export const isLate = ({ fault }: Answer): boolean => fault?.startsWith(late) === true

export const isSuccess = ({ status }: Pick<Answer, 'status'>): boolean =>
  (status >= 200 && status < 300) || status === 304
/** Whether a retry may succeed. 401 and 403 need a change of key or rights first. */
export const isPassing = ({ status }: Pick<Answer, 'status'>): boolean =>
  status < 400 || status >= 500 || status === 408 || status === 429
/** Whether the key is invalid: 401, or 429 once the address has sent many invalid keys. */
export const isBadKey = ({ status, header }: Pick<Answer, 'status'> & Partial<Answer>): boolean =>
  status === 401 || (status === 429 && header?.('x-error-code') === 'too_many_failures')
export const isRefused = ({ status }: Pick<Answer, 'status'>): boolean => status === 401 || status === 403

/**
 * Command that creates a key for an instance. All coding agents share one key: their ids begin with these prefixes by
 * default.
 */
export const keyCommand = (instanceId: string): string =>
  `wardline keys create --scope agent ${
    codingTools.some((tool) => instanceId.startsWith(`${tool}-`))
      ? `--name coding-agents${codingTools.map((tool) => ` --instance '${tool}-*'`).join('')}`
      : `--name ${instanceId} --instance ${instanceId}`
  }`

/** Command that creates a key with which a supervisor proves that it holds the agent. */
export const supervisorKeyCommand = (instanceId: string): string =>
  `wardline keys create --scope agent --instance ${instanceId} --supervisor`

/** Returns the public part of a key, as shown by `wardline keys list`. */
const keyId = (key: string): string | undefined => /^wl_[a-z]+_([0-9a-z]{8})_/.exec(key)?.[1]

/** Client for the service's routes under /api, with the key of one agent. */
export class Service {
  readonly #base: URL
  readonly #key: string
  readonly #instanceId: string
  readonly #keyCommand: (instanceId: string) => string
  /** Called with the control version of each answer that says that the agent is suspended. */
  onSuspended: (version: number) => void = () => {}

  constructor({ url, key, instanceId }: { url: string; key: string; instanceId: string }, newKeyCommand = keyCommand) {
    this.#keyCommand = newKeyCommand
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
   * Never rejects. Retries once if the connection was lost, which is how a reused idle connection fails. This is safe,
   * because every request of an agent may be repeated.
   */
  async call(path: string, call: Call): Promise<Answer> {
    const giveUp = new AbortController()
    const stopWaiting = turningTimeout(call.timeoutMs, () => giveUp.abort())
    try {
      return await this.#send(path, call, giveUp.signal).catch(() => this.#send(path, call, giveUp.signal))
    } catch (fault) {
      return noAnswer(giveUp.signal.aborted ? `${late} ${call.timeoutMs} ms` : faultName(fault))
    } finally {
      stopWaiting()
    }
  }

  protected readSuspension(header: string | null): void {
    const version = announcedSuspension(header)
    if (version !== undefined) this.onSuspended(version)
  }

  /** Does not follow redirects: the key would be sent to their target. */
  async #send(path: string, { body, headers, method }: Call, signal: AbortSignal): Promise<Answer> {
    const json: Record<string, string> = body === undefined ? {} : { 'content-type': 'application/json' }
    const response = await fetch(this.url(path), {
      method: methodOf({ body, method }),
      headers: { ...this.headers, ...json, ...headers },
      ...(body === undefined ? {} : { body }),
      redirect: 'manual',
      signal,
    })
    this.readSuspension(response.headers.get(suspendedHeader))
    const text = await boundedText(response)
    if (text === undefined) return noAnswer(invalidAnswer)
    return {
      status: response.status,
      body: parsedObject(text),
      header: (name) => response.headers.get(name),
      retryAfterMs: retryAfterMs(response.headers.get('retry-after')),
    }
  }

  /** Describes an unsuccessful answer, with advice to the developer. */
  explain(answer: Pick<Answer, 'status'> & Partial<Answer>): MonitorError {
    const { status, fault } = answer
    const { host } = this.#base
    const id = keyId(this.#key)
    const key = id === undefined ? 'the key' : `the key ${id}`
    const remedy = `Create one where the service runs: ${this.#keyCommand(this.#instanceId)}`
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
      // A new key would not raise the instance limit.
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

  /** Removes the key from a text of the answer: any server at the url may repeat what it was sent. */
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

/** Whether an answer is uncompressed. Others are rejected, because a few compressed KiB can expand to gigabytes. */
export const isPlain = (encoding: string | null | undefined): boolean => /^(?:identity)?$/i.test(encoding ?? '')

/** Returns the body, or undefined if it is compressed or too long; the connection is closed then. */
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
