import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { createHistogram } from 'node:perf_hooks'

export interface TrafficFigures {
  /** Heartbeats that the service accepted. */
  heartbeats: number
  answered: number
  /** Requests that were refused or got no response. */
  failed: number
  /** Responses 429 and 503, after which an agent waits and retries. */
  throttled: number
  latencyMs: { p50: number; p99: number }
}

export interface Traffic {
  figures(): TrafficFigures
  close(): void
}

interface Message {
  request: { origin?: unknown; path: string }
  response?: { statusCode: number }
}

/** Paths of requests by agents. Requests by the operator of the fleet are not counted. */
const agentPath = /\/api\/(heartbeat|events\/batch|honeypots\/check\/\w+|instances\/[\w-]+\/(status|ack))$/

/**
 * Counts and times the requests of all agents in this process to one service. The SDK reports only errors, but Node's
 * fetch publishes every request (https://undici.nodejs.org/#/docs/api/DiagnosticsChannel).
 */
export function watchTraffic(url: string): Traffic {
  const { origin } = new URL(url)
  const latency = createHistogram()
  const sentAt = new WeakMap<object, number>()
  let [heartbeats, failed, throttled] = [0, 0, 0]

  const onSend = ({ request }: Message) => {
    if (String(request.origin) === origin && agentPath.test(request.path)) sentAt.set(request, performance.now())
  }
  const onAnswer = ({ request, response }: Message) => {
    const started = sentAt.get(request)
    if (started === undefined) return
    sentAt.delete(request)
    const { statusCode = 0 } = response ?? {}
    // An instance has no status before its first heartbeat, which is sent together with the first status request.
    const isUnknown = statusCode === 404 && request.path.endsWith('/status')
    if (statusCode === 429 || statusCode === 503) throttled++
    else if ((statusCode < 200 || statusCode >= 300) && statusCode !== 304 && !isUnknown) failed++
    else {
      latency.record(Math.max(1, Math.round((performance.now() - started) * 1_000)))
      if (request.path.endsWith('/heartbeat')) heartbeats++
    }
  }
  const onFault = ({ request }: Message) => {
    // After a response, an error only means that the connection was closed.
    if (sentAt.delete(request)) failed++
  }
  const listeners = Object.entries({ create: onSend, headers: onAnswer, error: onFault }).map(
    ([name, listen]) => [`undici:request:${name}`, (message: unknown) => listen(message as Message)] as const,
  )
  for (const [channel, listen] of listeners) subscribe(channel, listen)

  const milliseconds = (percentile: number) =>
    latency.count === 0 ? 0 : Math.round(latency.percentile(percentile) / 10) / 100
  return {
    figures: () => ({
      heartbeats,
      answered: latency.count,
      failed,
      throttled,
      latencyMs: { p50: milliseconds(50), p99: milliseconds(99) },
    }),
    close: () => {
      for (const [channel, listen] of listeners) unsubscribe(channel, listen)
    },
  }
}
