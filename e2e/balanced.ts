import { setTimeout as pause } from 'node:timers/promises'
import type { Answer } from './call.ts'
import type { Service } from './service.ts'

/** Several processes behind one client, which does what a load balancer does. */
export interface Balanced extends Pick<Service, 'call' | 'openStream'> {
  /** Requests that were sent again, and how often, by reason. */
  again: Map<string, number>
}

interface BalanceOptions {
  /** Whether another process may answer better. Default: only when this one says that it stops. */
  isRefused?(answer: Answer): boolean
  /** Called with each answer that counts. */
  onAnswer?(service: Service, method: string, path: string): void
}

/** Long enough to leave the CPU to what starts or is promoted. */
const pauseBeforeRetryMs = 25

/** A process that stops answers 503 and closes the connection. */
const saysItStops = ({ status, headers }: Answer) => status === 503 && headers.connection === 'close'

/**
 * Sends each request to the next process, and again when there is no answer, the process says that it stops, or
 * `isRefused`. Processes may be replaced in the array meanwhile.
 */
export function balance(
  services: readonly Service[],
  { isRefused = saysItStops, onAnswer = () => {} }: BalanceOptions = {},
): Balanced {
  const again = new Map<string, number>()
  let next = 0

  /** `work` resolves with the reason to ask another process, or with what it returns. */
  async function ask<Result extends object>(work: (service: Service) => Promise<Result | string>): Promise<Result> {
    for (;;) {
      const service = services[next++ % services.length]!
      const result = await work(service).catch((fault: NodeJS.ErrnoException) => fault.code ?? fault.message)
      if (typeof result !== 'string') return result
      again.set(result, (again.get(result) ?? 0) + 1)
      await pause(pauseBeforeRetryMs)
    }
  }

  return {
    again,
    call: <Body>(...[method, path, options]: Parameters<Service['call']>) =>
      ask<Answer<Body>>(async (service) => {
        const answer = await service.call<Body>(method, path, options)
        if (isRefused(answer)) return `${answer.status}, retry-after ${answer.headers['retry-after']}`
        onAnswer(service, method, path)
        return answer
      }),
    openStream: (path, options) =>
      ask(async (service) => {
        const stream = await service.openStream(path, options)
        return stream.status === 200 ? stream : `a stream: ${stream.status}`
      }),
  }
}
