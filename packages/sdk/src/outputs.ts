import { setTimeout } from 'node:timers/promises'
import type { Service } from './service.ts'

/** Waiting outputs. Each has at most 8 KB; what comes while they wait is not compared. */
const maxWaiting = 20
/** Between two requests: outputs count as events, and must not use up the quota of the reports. */
const pauseMs = 200

/** What of an output may be a key, and where it was found. */
export interface OutputKeys {
  of: 'result' | 'answer'
  keys: string
  tool?: string | undefined
}

/** Body of the request that looks for decoys in an output. The service stores what it finds and does not say it. */
export const outputBody = ({ of, keys, tool }: OutputKeys, instanceId: string): string =>
  JSON.stringify({ of, text: keys, meta: { instance_id: instanceId, tool: tool?.slice(0, 100).toWellFormed() } })

export const outputRoute = 'honeypots/check/output'

/** Has results and answers compared with decoys, one after another, and waits for no answer. */
export class Outputs {
  readonly #service: Service
  readonly #instanceId: string
  readonly #timeoutMs: number
  readonly #waiting: OutputKeys[] = []
  #sending: Promise<void> | undefined

  constructor(service: Service, instanceId: string, timeoutMs: number) {
    this.#service = service
    this.#instanceId = instanceId
    this.#timeoutMs = timeoutMs
  }

  add(output: OutputKeys): void {
    if (this.#waiting.length >= maxWaiting) return
    this.#waiting.push(output)
    this.#sending ??= this.#send()
  }

  /** Resolves when nothing waits. */
  async settled(): Promise<void> {
    await this.#sending
  }

  async #send(): Promise<void> {
    for (let output = this.#waiting.shift(); output; output = this.#waiting.shift()) {
      const body = outputBody(output, this.#instanceId)
      await this.#service.call(outputRoute, { body, timeoutMs: this.#timeoutMs })
      if (this.#waiting.length > 0) await setTimeout(pauseMs)
    }
    this.#sending = undefined
  }
}
