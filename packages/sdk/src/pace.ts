/**
 * Intervals and timeouts in milliseconds. They are not options, because the service relies on them; tests use shorter
 * ones.
 */
export interface Pace {
  heartbeat: number
  poll: number
  pollWithoutStream: number
  /** Minimum between two polls that headers of answers cause: any server at the url can send them with every answer. */
  announced: number
  /** A stream that sends no byte for this long counts as dead: the service sends one every 30 seconds. */
  streamSilence: number
  /** The service sends the state right after connecting; a stream that has sent nothing after this time is closed. */
  streamStart: number
  reconnect: number
  maxReconnect: number
  /** Interval of attempts with a refused key, which only a person can fix. */
  refused: number
  request: number
  start: number
  /** How long an event that is not urgent may wait to be batched with others. */
  batch: number
  flush: number
  metricsWindow: number
  /** Between two requests of a call that waits for a person; the control stream announces most decisions earlier. */
  approval: number
}

export const usualPace: Pace = {
  heartbeat: 60_000,
  poll: 30_000,
  pollWithoutStream: 3_000,
  announced: 3_000,
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
  approval: 2_000,
}

/**
 * Varies an interval by up to 20 % either way, so that agents started together do not send requests at the same time.
 */
export const jittered = (ms: number): number => ms * (0.8 + 0.4 * Math.random())

/**
 * Returns a random wait whose upper bound doubles with each attempt. Never below `reconnect`, so never a tight loop.
 */
export function backoff({ reconnect, maxReconnect }: Pace, attempt: number): number {
  const bound = Math.min(maxReconnect, reconnect * 2 ** Math.min(attempt + 1, 20))
  return reconnect + Math.random() * (bound - reconnect)
}
