import { connect } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'

/** Steps of a client on its socket. */
export type Step =
  | { write: string | Buffer }
  | { waitMs: number }
  /** Waits until this text was received, at most 30 seconds. */
  | { until: string }
  /** Sends FIN and continues to read. */
  | 'half-close'
  /** Sends RST. */
  | 'abort'

export interface Received {
  text: string
  /** Whether the service closed the connection before the client. */
  closed: boolean
}

/**
 * Runs the steps on one connection, then reads until the service closes it or `quietMs` pass without a byte; for the
 * first byte it waits `firstMs`. Connection errors are expected, so they only end the connection.
 */
export function play(port: number, steps: Step[], quietMs: number, firstMs = quietMs): Promise<Received> {
  return new Promise((resolve) => {
    // A client that responds to FIN with FIN would hide connections that the service does not close.
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true, noDelay: true })
    let text = ''
    let closed = false
    let isPlayed = false
    // Restarted below with `quietMs`; until then it ends the wait for a service that reads nothing.
    let timer = setTimeout(() => finish(), 30_000)
    const finish = () => {
      clearTimeout(timer)
      socket.resetAndDestroy()
      resolve({ text, closed })
    }
    const waitFor = (ms: number) => {
      clearTimeout(timer)
      timer = setTimeout(finish, ms)
    }
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1')
      if (isPlayed) waitFor(quietMs)
    })
    const close = () => {
      closed = true
      finish()
    }
    socket.once('end', close).once('close', close)
    // The event 'close' follows.
    socket.on('error', () => {})

    async function run() {
      for (const step of steps) {
        if (closed) return
        if (step === 'abort') return finish()
        if (step === 'half-close') socket.end()
        else if ('waitMs' in step) await pause(step.waitMs)
        else if ('until' in step) while (!closed && !text.includes(step.until)) await pause(5)
        else await new Promise<void>((sent) => socket.write(step.write, () => sent()))
      }
      if (closed) return
      isPlayed = true
      waitFor(text === '' ? firstMs : quietMs)
    }
    void run()
  })
}

/** Returns the statuses of the responses, in order. */
export const statuses = (text: string): number[] =>
  [...text.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map((match) => Number(match[1])).filter((status) => status >= 200)

/** Runs the work for each item with limited concurrency; returns the results in the order of the items. */
export async function eachOf<Item, Result>(
  items: readonly Item[],
  atATime: number,
  work: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = []
  let next = 0
  async function worker() {
    while (next < items.length) {
      const index = next++
      results[index] = await work(items[index]!)
    }
  }
  await Promise.all(Array.from({ length: atATime }, worker))
  return results
}
