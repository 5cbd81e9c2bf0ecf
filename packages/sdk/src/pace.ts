/** Milliseconds between things. They are not options, since the service relies on them; tests go faster. */
export interface Pace {
  heartbeat: number
  poll: number
  pollWithoutStream: number
  /** A stream without a byte for this long is dead: the service sends one every 30 seconds. */
  streamSilence: number
  /** Limit for the first message: the service sends the state at once. */
  streamStart: number
  reconnect: number
  maxReconnect: number
  /** Between attempts with a refused key, which only a person can fix. */
  refused: number
  request: number
  start: number
  /** How long an event that is not urgent waits for others, to be sent in one batch. */
  batch: number
  flush: number
  metricsWindow: number
}

export const usualPace: Pace = {
  heartbeat: 60_000,
  poll: 30_000,
  pollWithoutStream: 3_000,
  streamSilence: 75_000,
  streamStart: 10_000,
  reconnect: 1_000,
  maxReconnect: 30_000,
  refused: 60_000,
  request: 5_000,
  start: 5_000,
  batch: 1_000,
  flush: 5_000,
  metricsWindow: 300_000,
}

/** Varies by up to 20 %, so that agents that were started together do not send requests together. */
export const jittered = (ms: number): number => ms * (0.8 + 0.4 * Math.random())

/** Returns a random wait whose upper bound doubles with each attempt. A minimum prevents tight loops. */
export function backoff({ reconnect, maxReconnect }: Pace, attempt: number): number {
  const bound = Math.min(maxReconnect, reconnect * 2 ** Math.min(attempt + 1, 20))
  return reconnect + Math.random() * (bound - reconnect)
}
