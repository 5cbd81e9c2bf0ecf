import { setTimeout } from 'node:timers'
import type { ActiveFaults } from './active-faults.ts'
import { plainPath } from './decoy-paths.ts'
import { type DecoyTexts, decoyTexts, keyParts, maxTextLength, pathParts, sendable } from './decoy-texts.ts'
import { MonitorError } from './faults.ts'
import type { CheckOptions, GuardedCall } from './monitor.ts'
import { type Answer, isBadKey, isLate, isSuccess, type Service } from './service.ts'

/**
 * Verdict on a call. For `unchecked`, the fail mode decides. `refusals` are denied in every fail mode; otherwise an
 * attacker who controls the arguments, or makes many calls, could avoid the check.
 */
export type Verdict = 'clear' | 'decoy' | 'unchecked' | Refusal
type Refusal = keyof typeof refusals

export const refusals = {
  tooLarge: `Its arguments are too large to compare with the decoys: the maximum is ${maxTextLength / 1024 / 1024} MiB.`,
  tooMany: 'This agent made too many decoy checks in the last minute.',
  rejected: 'The service refuses the arguments for a check.',
  tooCostly: 'Comparing its arguments with the decoys exceeds the work limit of a check.',
  unanswered: 'The service answers, but did not check all of its arguments in time.',
} as const

export const isRefusal = (verdict: Verdict): verdict is Refusal => Object.hasOwn(refusals, verdict)

interface DecoyCheckOptions {
  service: Service
  faults: ActiveFaults
  instanceId: string
  timeoutMs: number
  /** When the checks must have ended, the probe included: a time of `performance.now()`. */
  endsAt?: number
  /** Time for the harmless text, if any is left: a service that answered just now is rather slow than away. */
  maxProbeMs?: number
}

interface Question {
  route: 'key' | 'path'
  body: object
}

/** Concurrent requests, of all calls together: the service refuses more costly checks of a key at a time. */
const maxAtOnce = 8
/** Number of requests that `timeoutMs` covers. Arguments that need more requests get proportionally more time. */
const usualRequests = 16
/** Time for a harmless text, after the arguments got no answer. A probe that gets less proves nothing. */
const probeMs = 500
/** Kept free of other requests: the probe, and what the timers of a busy machine are late by. */
export const reservedMs = probeMs + 200
/** Wait when the service is busy and sends no Retry-After. */
const retryMs = 250
/** Maximum path length on Linux. */
const maxFolderLength = 4_096

/** Asks the service whether texts contain decoys. The service records a match itself before it answers. */
export class DecoyChecks {
  readonly #options: DecoyCheckOptions
  #reach: 'none' | 'some' | 'unknown' = 'unknown'
  #unchecked = 0
  readonly #slots = new Slots(maxAtOnce)

  constructor(options: DecoyCheckOptions) {
    this.#options = options
  }

  /** Whether any decoys exist, as the service reports with every heartbeat and poll. */
  get reach(): 'none' | 'some' | 'unknown' {
    return this.#reach
  }

  /** Number of calls not checked, or only in part. */
  get unchecked(): number {
    return this.#unchecked
  }

  learn(answer: Answer): void {
    const said = answer.header('x-wardline-decoys')
    if (isSuccess(answer) && (said === 'none' || said === 'some')) this.#reach = said
  }

  checkCall({ args, decoyArgs = args, toolName, cwd }: GuardedCall): Promise<Verdict> {
    return this.#check(() => decoyTexts(decoyArgs), { tool: toolName, cwd })
  }

  checkKey(text: string, options: CheckOptions): Promise<Verdict> {
    return this.#check(() => (typeof text === 'string' ? keyParts(text) : decoyTexts(text)), options)
  }

  checkPath(text: string, options: CheckOptions): Promise<Verdict> {
    return this.#check(() => (typeof text === 'string' ? pathParts(text) : decoyTexts(text)), options)
  }

  async #check(texts: () => DecoyTexts, { tool, cwd, realPath }: CheckOptions): Promise<Verdict> {
    if (this.#reach === 'none') return 'clear'
    const { keys, paths, gap } = texts()
    const meta = { tool: plainText(tool, 100), instance_id: this.#options.instanceId }
    const folders = foldersOf(cwd ?? workingFolder())
    const questions: Question[] = [
      ...keys.map((key): Question => ({ route: 'key', body: { key, meta } })),
      ...folders.flatMap((folder) =>
        paths.map((path): Question => {
          return {
            route: 'path',
            body: { path, meta: { ...meta, cwd: folder, realPath: plainText(realPath, maxFolderLength) } },
          }
        }),
      ),
    ]
    const verdict = gap === 'tooLarge' ? gap : await this.#askAll(questions)
    if (verdict === 'decoy' || (verdict === 'clear' && gap === undefined)) return verdict
    this.#unchecked += 1
    if (verdict === 'tooLarge') this.#raise(refusals.tooLarge)
    return verdict === 'clear' ? 'unchecked' : verdict
  }

  async #askAll(questions: Question[], isRetry = false): Promise<Verdict> {
    const { timeoutMs, endsAt = Infinity, faults, service } = this.#options
    const leftMs = endsAt - performance.now()
    // A late call gets all of the time: its answer may still come, and without the probe it is denied.
    const limitMs = leftMs > 2 * reservedMs ? leftMs - reservedMs : leftMs
    const allowedMs = Math.min(limitMs, timeoutMs * Math.max(1, questions.length / usualRequests))
    const waiting = questions.values()
    const unanswered = new Set(questions)
    const failed: Answer[] = []
    let isDecoy = false
    let isPartial = false
    const work = async () => {
      let leftMs = allowedMs
      for (const question of waiting) {
        // Waiting for other calls takes nothing from the time of this one.
        await this.#slots.take()
        const askedAt = performance.now()
        const answer = await this.#ask(question, askedAt + leftMs).finally(() => this.#slots.give())
        leftMs -= performance.now() - askedAt
        isDecoy ||= answer.body.matched === true
        if (isAnswered(answer)) {
          unanswered.delete(question)
          isPartial ||= answer.header('x-wardline-check') === 'partial'
        } else failed.push(answer)
        // If the service does not answer now, hundreds of further requests would fail too.
        if (isDecoy || answer.status === 0) return
      }
    }
    await Promise.all(Array.from({ length: maxAtOnce }, work))
    if (isDecoy) return 'decoy'
    const [fault] = failed
    if (!fault) {
      faults.clear('decoys')
      return isPartial ? 'tooCostly' : 'clear'
    }
    // Drop the body: an error text may repeat the checked text.
    this.#raise(service.explain({ ...fault, body: {} }).message)
    if (failed.some(isTooMuchAtOnce)) return 'tooMany'
    if (failed.some(isAboutTheText)) return 'rejected'
    // The fail mode decides only if the service is away or refuses the caller. While it answers anything else, the
    // arguments themselves keep it from answering.
    const isAway = unanswered.size === questions.length && (failed.every(isAboutTheCaller) || (await this.#isAway()))
    if (isAway) return isRetry ? 'unanswered' : 'unchecked'
    if (failed.some(isStrange)) return 'rejected'
    // A busy machine may have delayed the answers of honest arguments.
    if (isRetry) return 'unanswered'
    const verdict = await this.#askAll([...unanswered], true)
    return verdict === 'clear' && isPartial ? 'tooCostly' : verdict
  }

  /** Retries while the service is busy and time is left. */
  async #ask({ route, body }: Question, deadline: number, timeoutMs = this.#options.timeoutMs): Promise<Answer> {
    const { service } = this.#options
    for (;;) {
      const left = Math.max(1, Math.min(timeoutMs, deadline - performance.now()))
      const answer = await service.call(`honeypots/check/${route}`, {
        body: JSON.stringify(body),
        timeoutMs: Math.ceil(left),
      })
      const wait = Math.max(answer.retryAfterMs ?? retryMs, retryMs)
      const isBusy = isTooMuchAtOnce(answer) || answer.status === 503
      if (!isBusy || performance.now() + wait >= deadline) return answer
      await new Promise((resolve) => setTimeout(resolve, wait))
    }
  }

  /** Whether a harmless text gets no answer either: none in its full time, or no connection. */
  async #isAway(): Promise<boolean> {
    const { endsAt = Infinity, maxProbeMs = probeMs } = this.#options
    const leftMs = Math.min(maxProbeMs, endsAt - performance.now())
    const deadline = performance.now() + leftMs
    const answer = await this.#ask({ route: 'key', body: { key: 'wardline' } }, deadline, maxProbeMs)
    if (isAnswered(answer) || isTooMuchAtOnce(answer)) return false
    return leftMs >= probeMs || !isLate(answer)
  }

  #raise(why: string): void {
    const message = `A call could not be compared with the decoys. ${why}`
    this.#options.faults.raise('decoys', new MonitorError('unchecked', message))
  }
}

/** Places for requests, given in the order in which they were asked for. */
class Slots {
  #free: number
  readonly #waiting: (() => void)[] = []

  constructor(count: number) {
    this.#free = count
  }

  async take(): Promise<void> {
    if (this.#free > 0) this.#free -= 1
    else await new Promise<void>((resolve) => this.#waiting.push(resolve))
  }

  give(): void {
    const next = this.#waiting.shift()
    if (next) next()
    else this.#free += 1
  }
}

const isAnswered = (answer: Answer): boolean => isSuccess(answer) && typeof answer.body.matched === 'boolean'

/** Whether the caller has used up its quota of checks, or has too many costly ones in progress (`overloaded`). */
const isTooMuchAtOnce = (answer: Answer): boolean =>
  (answer.status === 429 && !isBadKey(answer)) ||
  (answer.status === 503 && answer.header('x-error-code') === 'overloaded')

/** Whether the request was refused because of its content, not its key, address or rate. */
const isAboutTheText = ({ status }: Answer): boolean =>
  status >= 400 && status < 500 && ![401, 403, 404, 405, 407, 408, 421, 429].includes(status)

/** Whether the answer came from something other than the service, such as a firewall that blocks a decoy's path. */
const isStrange = ({ status, header }: Answer): boolean =>
  status > 0 && status < 500 && status !== 408 && header('x-error-code') === null

/** Whether the service itself refused the key or the address, whatever the text; not that a long text came too slowly (408). */
const isAboutTheCaller = (answer: Answer): boolean =>
  answer.status >= 400 && answer.status < 500 && answer.status !== 408 && !isStrange(answer) && !isAboutTheText(answer)

/** Cleans a metadata field, so that one invalid field does not make the service refuse the request. */
function plainText(text: unknown, maxLength: number): string | undefined {
  return typeof text === 'string' ? sendable(text)[0]!.slice(0, maxLength).toWellFormed() : undefined
}

/** Returns every reading of the base folder of relative paths. A folder too long for any system is left out. */
function foldersOf(folder: unknown): (string | undefined)[] {
  if (typeof folder !== 'string') return [undefined]
  const forms = sendable(folder).slice(0, 2)
  return forms.map((form) => {
    const path = form.length > maxFolderLength ? plainPath(form) : form
    return path.length > maxFolderLength ? undefined : path
  })
}

/** Returns the working directory; undefined if it was removed. */
export function workingFolder(): string | undefined {
  try {
    return process.cwd()
  } catch {
    return undefined
  }
}
