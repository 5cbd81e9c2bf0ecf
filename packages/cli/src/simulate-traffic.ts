import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { createHistogram } from 'node:perf_hooks'
import { setTimeout as pause } from 'node:timers/promises'
import { type Client, createClient, WardlineError } from '@wardline/contract'

/** An answer that takes longer is given up, so that a hung service shows as failures. */
const giveUpMs = 15_000
/** After as many "try again" the request counts as failed. */
const mostAttempts = 5
/** A service that asks for more than this is as good as down; looking again costs little. */
const longestWaitMs = 30_000

export interface Traffic {
  call: Client
  figures(): TrafficFigures
  close(): void
}

export interface TrafficFigures {
  answered: number
  failed: number
  /** Answers 503 with "try again", each followed by a wait. */
  toldToWait: number
  lastFailure: string | undefined
  latencyMs: { p50: number; p99: number }
}

/** Milliseconds that the header Retry-After asks for: seconds or a date (RFC 9110, section 10.2.3); else one second. */
export function retryAfterMs(value: string | undefined, now: number): number {
  const asked = /^\d{1,9}$/.test(value ?? '') ? Number(value) * 1_000 : Date.parse(value ?? '') - now
  return Number.isFinite(asked) ? Math.min(longestWaitMs, Math.max(0, asked)) : 1_000
}

/**
 * Hears Retry-After of every answer 503 of one origin. The contract's client hands on the status and the sentence of
 * a failure but no header; Node's fetch publishes the headers of each answer before it resolves.
 */
function watchRetryAfter(origin: string, hear: (waitMs: number) => void): () => void {
  const channel = 'undici:request:headers'
  const listen = (message: unknown) => {
    const { request, response } = message as {
      request: { origin?: unknown }
      response: { statusCode: number; headers: Buffer[] }
    }
    if (response.statusCode !== 503 || String(request.origin) !== origin) return
    const texts = response.headers.map((part) => part.toString('latin1'))
    const place = texts.findIndex((text, index) => index % 2 === 0 && text.toLowerCase() === 'retry-after')
    hear(retryAfterMs(place === -1 ? undefined : texts[place + 1], Date.now()))
  }
  subscribe(channel, listen)
  return () => void unsubscribe(channel, listen)
}

/**
 * The contract's client with its requests counted and timed. Once the service says that it is overloaded, every
 * request waits as long as it asked. Rejects with WardlineError, or with any error once the signal is aborted.
 */
export function createTraffic({ url, key, signal }: { url: string; key: string; signal: AbortSignal }): Traffic {
  const client = createClient({ url, key })
  const latency = createHistogram()
  let failed = 0
  let toldToWait = 0
  let lastFailure: string | undefined
  let notBefore = 0
  const stopWatching = watchRetryAfter(new URL(url).origin, (waitMs) => {
    notBefore = Math.max(notBefore, performance.now() + waitMs)
  })

  async function attempt<Reply>(send: (signal: AbortSignal) => Promise<Reply>): Promise<Reply> {
    for (let wait = notBefore - performance.now(); wait > 0; wait = notBefore - performance.now()) {
      await pause(wait, undefined, { signal })
    }
    // One controller a request: a signal that outlives millions of requests must not gather what they leave behind.
    const request = new AbortController()
    const giveUp = () => request.abort()
    const timer = setTimeout(giveUp, giveUpMs)
    signal.addEventListener('abort', giveUp)
    const started = performance.now()
    try {
      const reply = await send(request.signal)
      latency.record(Math.max(1, Math.round((performance.now() - started) * 1_000)))
      return reply
    } finally {
      clearTimeout(timer)
      signal.removeEventListener('abort', giveUp)
    }
  }

  const call: Client = async (name, input) => {
    for (let attempts = 1; ; attempts++) {
      signal.throwIfAborted()
      try {
        return await attempt((requestSignal) => client(name, { ...input, signal: requestSignal }))
      } catch (fault) {
        if (signal.aborted || !(fault instanceof WardlineError)) throw fault
        if (fault.status === 503) toldToWait++
        if (fault.status === 503 && attempts < mostAttempts) continue
        failed++
        lastFailure = fault.message
        throw fault
      }
    }
  }

  const milliseconds = (percentile: number) =>
    latency.count === 0 ? 0 : Math.round(latency.percentile(percentile) / 10) / 100
  return {
    call,
    figures: () => ({
      answered: latency.count,
      failed,
      toldToWait,
      lastFailure,
      latencyMs: { p50: milliseconds(50), p99: milliseconds(99) },
    }),
    close: stopWatching,
  }
}
