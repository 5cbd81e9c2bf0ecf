import { clearTimeout, setTimeout } from 'node:timers'
import { MonitorError } from './faults.ts'

export interface Answer {
  /** 0 when none came in time. */
  status: number
  /** The JSON of the body, or an empty object. */
  body: Record<string, unknown>
  header(name: string): string | null
  retryAfterMs: number | undefined
  /** Why none came, such as ECONNREFUSED. */
  fault?: string
}

export interface Call {
  /** JSON. A call with a body is a POST. */
  body?: string
  headers?: Record<string, string>
  timeoutMs: number
}

/** However long an answer asks to wait: no proxy may blind the kill switch for longer. */
const mostRetryAfterMs = 60_000

/** `Retry-After` in milliseconds, from seconds or a date. */
export function retryAfterMs(value: string | null | undefined): number | undefined {
  if (!value) return undefined
  const ms = /^\s*\d+\s*$/.test(value) ? Number(value) * 1000 : Date.parse(value) - Date.now()
  return Number.isFinite(ms) ? Math.min(Math.max(ms, 0), mostRetryAfterMs) : undefined
}

export const isSuccess = ({ status }: Pick<Answer, 'status'>): boolean =>
  (status >= 200 && status < 300) || status === 304
/** The request may succeed when it is sent once more; 401 and 403 only after somebody changed something. */
export const isPassing = ({ status }: Pick<Answer, 'status'>): boolean =>
  status < 400 || status >= 500 || status === 408 || status === 429
export const isRefused = ({ status }: Pick<Answer, 'status'>): boolean => status === 401 || status === 403

/** The routes of the service under /api, called with the key of one agent. */
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
    return { 'x-monitor-key': this.#key }
  }

  /**
   * Never rejects. A request whose connection was lost is sent once more, since that is how a connection ends that was
   * kept for the next request: every request of an agent may be repeated.
   */
  async call(path: string, call: Call): Promise<Answer> {
    const giveUp = new AbortController()
    // Held: whoever waits for the answer would otherwise see the process end instead.
    const timer = setTimeout(() => giveUp.abort(), call.timeoutMs)
    try {
      return await this.#send(path, call, giveUp.signal).catch(() => this.#send(path, call, giveUp.signal))
    } catch (fault) {
      const why = giveUp.signal.aborted ? `none within ${call.timeoutMs} ms` : faultName(fault)
      return { status: 0, body: {}, header: () => null, retryAfterMs: undefined, fault: why }
    } finally {
      clearTimeout(timer)
    }
  }

  /** Redirects are not followed: the key would go along to wherever they lead. */
  async #send(path: string, { body, headers }: Call, signal: AbortSignal): Promise<Answer> {
    const json: Record<string, string> = body === undefined ? {} : { 'content-type': 'application/json' }
    const response = await fetch(this.url(path), {
      method: body === undefined ? 'GET' : 'POST',
      headers: { ...this.headers, ...json, ...headers },
      ...(body === undefined ? {} : { body }),
      redirect: 'manual',
      signal,
    })
    const text = await response.text()
    return {
      status: response.status,
      body: parsedObject(text),
      header: (name) => response.headers.get(name),
      retryAfterMs: retryAfterMs(response.headers.get('retry-after')),
    }
  }

  /** What to tell the developer of an answer that is no success. */
  explain(answer: Pick<Answer, 'status' | 'fault'> & { body?: Answer['body'] }): MonitorError {
    const { status, fault } = answer
    const { host } = this.#base
    if (status === 0) {
      const cause = fault === undefined ? '' : ` (${fault})`
      return new MonitorError(
        'unreachable',
        `No answer from ${host}${cause}. Check that the service runs and that url leads to it; the monitor keeps trying.`,
      )
    }
    if (status === 401) {
      return new MonitorError(
        'unauthorized',
        `${host} does not accept the key (401). Create one with "wardline keys create --scope agent --instance ${this.#instanceId}" and start the agent with it.`,
      )
    }
    if (status === 403) {
      return new MonitorError(
        'unauthorized',
        `The key may not act for the instance ${this.#instanceId} (403). Use a key of scope agent that is bound to it.`,
      )
    }
    if (status >= 300 && status < 400) {
      return new MonitorError(
        'unexpected',
        `${host} answers with a redirect (${status}), which is not followed because the key would go along. Set url to the address it leads to.`,
      )
    }
    const said = typeof answer.body?.error === 'string' ? `: ${this.#withoutKey(answer.body.error)}` : '.'
    return new MonitorError('unexpected', `${host} answers with ${status}${said}`)
  }

  /** An answer may come from anything that listens there, and may repeat what it was sent. */
  #withoutKey(text: string): string {
    return text.replaceAll(this.#key, '[key]').slice(0, 200)
  }
}

function faultName(fault: unknown): string {
  const { name, code, cause } = fault as { name?: string; code?: unknown; cause?: { code?: unknown } }
  const known = cause?.code ?? code ?? name
  return typeof known === 'string' ? known : 'unknown'
}

function parsedObject(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
  } catch {
    return {}
  }
}
