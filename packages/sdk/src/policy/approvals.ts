import { clearTimeout, setTimeout } from 'node:timers'
import type { Pace } from '../pace.ts'
import { jittered } from '../pace.ts'
import { type Answer, isRefused, isSuccess, type Service } from '../service.ts'

/** A question to a person about one call. The names are those of the request. */
export interface Question {
  session_id?: string | undefined
  tool: string
  args_sha256: string
  /** The arguments without secrets, for the person. */
  args?: string | undefined
  policy_id: string
  policy_version: number
  rule: string | null
  why?: string | undefined
  approvals: 1 | 2
  wait_seconds: number
}

/**
 * How it went. `pending`: nobody has decided yet. `refused`: the service answers, but does not take the question, which its
 * author may have caused. `away`: the service could not be asked, so the fail mode decides.
 */
export type Outcome =
  | { state: 'granted' | 'pending'; id: string }
  | { state: 'denied' | 'expired'; id: string; reason: string | null }
  | { state: 'refused' | 'away'; fault: string }

interface Waiting {
  /** Called once, when the call begins to wait. */
  onWait(id: string): void
  /** Each ends the waiting: the agent was suspended or stopped, or the caller has gone. */
  signals: readonly AbortSignal[]
}

/** Attempts to put a question to a service that does not answer, before the fail mode decides. */
const maxAttempts = 3
/** Beyond the time of the question, for a service whose clock is behind. */
const graceMs = 30_000
/** Decisions of which it is remembered that they were announced. */
const maxNoticed = 100
const idForm = /^[\w-]{1,64}$/

/** Reads an answer: undefined if the service may answer another attempt. */
function outcomeOf(answer: Answer, service: Service): Outcome | undefined {
  const { id, state, reason } = answer.body
  if (isSuccess(answer) && typeof id === 'string' && idForm.test(id)) {
    if (state === 'granted' || state === 'pending') return { state, id }
    if (state === 'denied' || state === 'expired')
      return { state, id, reason: typeof reason === 'string' ? reason : null }
  }
  const fault = service.explain(answer).message
  // The cause is the key that the operator gave the agent, not the author of the call.
  if (isRefused(answer)) return { state: 'away', fault }
  if (answer.status === 429) return { state: 'refused', fault: 'Too many calls of this agent wait for a person.' }
  return answer.status === 0 || answer.status >= 500 ? undefined : { state: 'refused', fault }
}

const isAborted = ({ aborted }: AbortSignal): boolean => aborted
const stopped: Outcome = { state: 'refused', fault: 'The call was given up meanwhile.' }

/** Asks people about calls. */
export class Approvals {
  readonly #service: Service
  readonly #instanceId: string
  readonly #pace: Pace
  /** By id of the approval: wakes those who wait for it. */
  readonly #waiting = new Map<string, Set<() => void>>()
  /** When the last decisions were announced, by id: one may come before the answer to the question. */
  readonly #noticed = new Map<string, number>()

  constructor(service: Service, instanceId: string, pace: Pace) {
    this.#service = service
    this.#instanceId = instanceId
    this.#pace = pace
  }

  /** The service has decided: asks at once. */
  notice(id: string): void {
    this.#noticed.delete(id)
    this.#noticed.set(id, performance.now())
    if (this.#noticed.size > maxNoticed) this.#noticed.delete(this.#noticed.keys().next().value!)
    for (const wake of this.#waiting.get(id) ?? []) wake()
  }

  /**
   * Puts a question. With `waiting`, waits for the decision; otherwise an undecided one is `pending`. `attempt`: a UUID of
   * the call, by which a repetition gets the same answer again.
   */
  async ask(question: Question, waiting: Waiting | undefined, attempt: string = crypto.randomUUID()): Promise<Outcome> {
    const body = JSON.stringify({ attempt, ...question })
    const endsAt = performance.now() + question.wait_seconds * 1_000 + graceMs
    let pending: Extract<Outcome, { state: 'pending' | 'granted' }> | undefined
    for (let failures = 0; ; ) {
      const askedAt = performance.now()
      const answer = await this.#service.call(`instances/${this.#instanceId}/approvals`, {
        body,
        timeoutMs: this.#pace.request,
      })
      const outcome = outcomeOf(answer, this.#service)
      if (outcome?.state === 'pending') {
        if (!waiting) return outcome
        if (pending?.id !== outcome.id) waiting.onWait(outcome.id)
        pending = outcome
      } else if (outcome && !(pending && answer.status === 429)) {
        // Whose caller has gone is retried: only one of the two may run.
        return outcome.state === 'granted' && waiting?.signals.some(isAborted) ? stopped : outcome
      }
      failures = outcome ? 0 : failures + 1
      // How long it waits is up to the service, unless that is gone.
      if (pending && !outcome && performance.now() >= endsAt) return { state: 'expired', id: pending.id, reason: null }
      if (!pending && failures >= maxAttempts) return { state: 'away', fault: this.#service.explain(answer).message }
      const ms = Math.max(answer.retryAfterMs ?? 0, jittered(this.#pace.approval))
      const signals = waiting?.signals ?? []
      await this.#pause(ms, pending?.id ?? '', askedAt, signals)
      if (signals.some(isAborted)) return pending ?? stopped
    }
  }

  /** Resolves after the time, a decision since `askedAt`, or an abort. Keeps the process alive, which waits for this. */
  #pause(ms: number, id: string, askedAt: number, signals: readonly AbortSignal[]): Promise<void> {
    const isOver = signals.some(isAborted) || (this.#noticed.get(id) ?? 0) >= askedAt
    if (isOver) return Promise.resolve()
    return new Promise((resolve) => {
      const wakers = this.#waiting.get(id) ?? new Set()
      const timer = setTimeout(() => done(), ms)
      const done = () => {
        clearTimeout(timer)
        for (const signal of signals) signal.removeEventListener('abort', done)
        if (wakers.delete(done) && wakers.size === 0) this.#waiting.delete(id)
        resolve()
      }
      this.#waiting.set(id, wakers.add(done))
      for (const signal of signals) signal.addEventListener('abort', done)
    })
  }
}
