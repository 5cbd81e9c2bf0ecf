import { type DecoyTexts, decoyTexts, keyParts, pathParts } from './decoy-texts.ts'
import { MonitorError } from './faults.ts'
import type { CheckOptions, GuardedCall } from './monitor.ts'
import { type Answer, isSuccess, type Service } from './service.ts'
import type { Troubles } from './troubles.ts'

export type Verdict = 'clear' | 'decoy' | 'unchecked'

export interface DecoyCheckOptions {
  service: Service
  troubles: Troubles
  instanceId: string
  timeoutMs: number
}

/** Asks the service whether texts are decoys. It records a match itself, before it answers. */
export class DecoyChecks {
  readonly #options: DecoyCheckOptions
  #reach: 'none' | 'some' | 'unknown' = 'unknown'
  #unchecked = 0

  constructor(options: DecoyCheckOptions) {
    this.#options = options
  }

  /** Whether decoys could match, as the service says with every heartbeat and poll. */
  get reach(): 'none' | 'some' | 'unknown' {
    return this.#reach
  }

  /** Calls that could not be checked, in whole or in part. */
  get unchecked(): number {
    return this.#unchecked
  }

  learn(answer: Answer): void {
    const said = answer.header('x-wardline-decoys')
    if (said === 'none' || said === 'some') this.#reach = said
  }

  checkCall({ args, toolName, cwd }: GuardedCall): Promise<Verdict> {
    return this.#ask(() => decoyTexts(args), { tool: toolName, cwd })
  }

  checkKey(text: string, options: CheckOptions): Promise<Verdict> {
    return this.#ask(() => (typeof text === 'string' ? keyParts(text) : decoyTexts(text)), options)
  }

  checkPath(text: string, options: CheckOptions): Promise<Verdict> {
    return this.#ask(() => (typeof text === 'string' ? pathParts(text) : decoyTexts(text)), options)
  }

  async #ask(texts: () => DecoyTexts, { tool, cwd = workingFolder(), realPath }: CheckOptions): Promise<Verdict> {
    if (this.#reach === 'none') return 'clear'
    const { service, timeoutMs, troubles, instanceId } = this.#options
    const { keys, paths, isComplete } = texts()
    const meta = { tool, instance_id: instanceId }
    const questions = [
      ...keys.map((key) => ({ route: 'key', body: { key, meta } })),
      ...paths.map((path) => ({ route: 'path', body: { path, meta: { ...meta, cwd, realPath } } })),
    ]
    const answers = await Promise.all(
      questions.map(({ route, body }) =>
        service.call(`honeypots/check/${route}`, { body: JSON.stringify(body), timeoutMs }),
      ),
    )
    if (answers.some(({ body }) => body.matched === true)) return 'decoy'
    const failed = answers.find((answer) => !isSuccess(answer) || typeof answer.body.matched !== 'boolean')
    if (failed) troubles.meet('decoys', uncheckedError(service, failed))
    else troubles.over('decoys')
    if (!failed && isComplete) return 'clear'
    this.#unchecked += 1
    return 'unchecked'
  }
}

function uncheckedError(service: Service, answer: Answer): MonitorError {
  // What a faulty answer says may repeat the text that was asked about.
  const { message } = service.explain({ status: answer.status, ...(answer.fault ? { fault: answer.fault } : {}) })
  return new MonitorError('unchecked', `A call could not be compared with the decoys. ${message}`)
}

/** Undefined where there is none, or it was removed. */
function workingFolder(): string | undefined {
  try {
    return process.cwd()
  } catch {
    return undefined
  }
}
