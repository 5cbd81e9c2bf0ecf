import { createHash } from 'node:crypto'
import type { PolicySet, SetDecision } from '@wardline/policy'
import { type Denial, denialOf, deniedByRule, uncheckedReason } from '../denied.ts'
import { MonitorError } from '../faults.ts'
import type { Report } from '../monitor.ts'
import { usualPace } from '../pace.ts'
import { Approvals, type Outcome } from '../policy/approvals.ts'
import { openSet, unreadableSet } from '../policy/policies.ts'
import { argumentsOf, blockedEvent, leftToUserEvent, observedEvents, unaskedEvent } from '../policy/policy-events.ts'
import { denialAfter, questionOf } from '../policy/policy-guard.ts'
import { type ReceivedSet, readSet, readStoredSet, storeSet } from '../policy/received-set.ts'
import { forgottenMemory } from '../policy/sessions.ts'
import type { Service } from '../service.ts'
import { openTextVerifier } from '../signed-control.ts'
import type { AgentMemory } from './agent-memory.ts'
import type { AgentSettings } from './agent-settings.ts'
import type { HookCall } from './hook-input.ts'
import { SessionFile } from './session-files.ts'

// Loaded only by hooks of agents that have policies: the others must not wait for it.

const fetchMs = 1_000
/** A question that is put waits this long for an answer, and until it is put again. */
const askPace = { ...usualPace, request: 800, approval: 400 }

interface HookPolicyOptions {
  settings: AgentSettings
  memory: AgentMemory
  service: Service
}

export interface PolicyVerdict {
  denial?: Denial | undefined
  /** Why the coding agent has to ask its user. */
  ask?: string
  /** To be reported with the call. */
  events: Report[]
  /** What the event of the call says of the flow of data before it. */
  flow?: object | undefined
  /** Sentences for people. */
  faults: string[]
}

/** The policies of the agent that a hook belongs to, from disk, and what its sessions have met. */
export class HookPolicy {
  readonly #options: HookPolicyOptions
  readonly #faults: string[] = []

  constructor(options: HookPolicyOptions) {
    this.#options = options
  }

  /** Remembers what a person wrote. */
  prompt(text: string, sessionId: string | undefined): void {
    this.#remember(sessionId, (file) => file.memory().prompt(text))
  }

  /** Remembers the result of a call. */
  async result({ toolName: tool, args, sessionId, outcome }: HookCall): Promise<void> {
    const set = await this.#stored()
    if (!set) return
    this.#remember(sessionId, (file) => set.learn(file.memory(), { tool, args: argumentsOf(args) }, outcome?.result))
  }

  /**
   * Decides on a call. `announced`: the version that the service has; `canAsk`: whether the coding agent can ask its user;
   * `endsAt`: until when a person may answer, a time of `performance.now()`; undefined if the service does not answer.
   */
  async decide(
    call: HookCall,
    { announced, canAsk, endsAt }: { announced: number; canAsk: boolean; endsAt: number | undefined },
  ): Promise<PolicyVerdict> {
    const set = await this.#current(announced)
    if (!set) {
      const isUnchecked = announced > 0 && this.#options.settings.failMode === 'closed'
      const denial = isUnchecked ? denialOf('policy', uncheckedReason(...this.#faults)) : undefined
      return { denial, events: [], faults: this.#faults }
    }
    const { toolName: tool, sessionId } = call
    // Of a text no rule knows the arguments: those that speak of them take effect, unless they allow.
    const { scope } = call
    const named = { tool, scope, args: call.isUnreadable ? 'unreadable' : argumentsOf(call.args) }
    let flow: object | undefined
    let decided: SetDecision | undefined
    const isKept = this.#remember(
      sessionId,
      (file) => {
        const memory = file.memory()
        flow = set.flowFacts(memory, named)
        decided = set.decide(memory, { ...named, at: Date.now() })
        // Its result may arrive after the next call, and in some coding agents not at all.
        if (decided.decision !== 'deny') set.learn(memory, named, undefined)
      },
      true,
    )
    decided ??= set.decide(forgottenMemory(), { ...named, at: Date.now() })
    const observed = observedEvents(tool, sessionId, decided)
    const verdict = await this.#verdict(call, decided, canAsk, endsAt)
    return {
      ...verdict,
      events: [...observed, ...verdict.events],
      flow: isKept ? flow : undefined,
      faults: this.#faults,
    }
  }

  async #verdict(
    call: HookCall,
    decided: SetDecision,
    canAsk: boolean,
    endsAt: number | undefined,
  ): Promise<Omit<PolicyVerdict, 'faults'>> {
    const { toolName: tool, sessionId } = call
    const { decision, rule } = decided
    if (decision === 'allow') return { events: [] }
    if (decision === 'deny') {
      const denial = denialOf('policy', deniedByRule(rule), { rule: rule ?? undefined })
      return { denial, events: [blockedEvent(call, decided)] }
    }
    if (canAsk) {
      const ask = `The policy of this agent asks its user${rule === null ? '' : ` (${rule})`}.`
      return { ask, events: [leftToUserEvent(tool, sessionId, decided)] }
    }
    const outcome = await this.#ask(call, decided, endsAt)
    const denial = denialAfter(outcome, rule, this.#options.settings.failMode)
    if (outcome.state === 'away') this.#faults.push(`A person could not be asked. ${outcome.fault}`)
    if (outcome.state === 'away' && !denial) return { events: [unaskedEvent(tool, sessionId, decided)] }
    return { denial, events: denial && !('id' in outcome) ? [blockedEvent(call, decided)] : [] }
  }

  async #ask(call: HookCall, decided: SetDecision, endsAt: number | undefined): Promise<Outcome> {
    const { settings, service } = this.#options
    const question = call.isUnreadable ? undefined : questionOf(decided, call)
    if (!question) return { state: 'refused', fault: 'Its arguments cannot be read as a whole.' }
    if (endsAt === undefined) return { state: 'away', fault: 'The service does not answer.' }
    const approvals = new Approvals(service, settings.instanceId, askPace)
    const left = AbortSignal.timeout(Math.max(1, Math.round(endsAt - performance.now())))
    const waiting = settings.onAsk === 'wait' ? { onWait: () => {}, signals: [left] } : undefined
    return approvals.ask(question, waiting, attemptOf(call))
  }

  /** Whether the memory of the session could be read and written. */
  #remember(sessionId: string | undefined, use: (file: SessionFile) => void, isDecision = false): boolean {
    try {
      const file = new SessionFile(this.#options.memory.sessionsFolder, sessionId)
      const remember = () => {
        use(file)
        file.save()
      }
      if (isDecision) file.exclusively(remember)
      else remember()
      return true
    } catch (fault) {
      const { code, message } = fault as { code?: string; message: string }
      this.#faults.push(`What the session has met cannot be stored (${code ?? message}), so more calls are asked.`)
      return false
    }
  }

  /** Returns the policies that hold, after fetching newer ones. */
  async #current(announced: number): Promise<PolicySet | undefined> {
    const { settings, service, memory } = this.#options
    const verify = await openTextVerifier(settings.publicKey)
    const stored = this.#storedSet(verify)
    if (announced <= (stored?.version ?? 0)) return stored && this.#open(stored)
    const answer = await service.call(`instances/${settings.instanceId}/policy`, { timeoutMs: fetchMs })
    const received =
      answer.status === 200 ? readSet(answer.body, settings.instanceId, verify) : service.explain(answer).message
    if (typeof received === 'string') this.#faults.push(`No newer policies were received. ${received}`)
    else if (received.version > (stored?.version ?? 0)) {
      const set = this.#open(received)
      if (set) {
        memory.makeFolder()
        const fault = storeSet(memory.policyFile, received, verify)
        if (fault) this.#faults.push(fault.message)
        return set
      }
    }
    return stored && this.#open(stored)
  }

  async #stored(): Promise<PolicySet | undefined> {
    const stored = this.#storedSet(await openTextVerifier(this.#options.settings.publicKey))
    return stored && this.#open(stored)
  }

  #storedSet(verify: Awaited<ReturnType<typeof openTextVerifier>>): ReceivedSet | undefined {
    const { settings, memory } = this.#options
    const stored = readStoredSet(memory.policyFile, settings.instanceId, verify)
    if (!(stored instanceof MonitorError)) return stored
    this.#faults.push(stored.message)
  }

  #open(received: ReceivedSet): PolicySet | undefined {
    try {
      return openSet(received, [])
    } catch (fault) {
      this.#faults.push(unreadableSet((fault as Error).message))
      return undefined
    }
  }
}

/**
 * A call that two hooks handle, of the user and of the folder, is one attempt. Undefined for a call without an id.
 */
function attemptOf({ sessionId, callId }: HookCall): string | undefined {
  if (!sessionId || !callId) return undefined
  const hex = createHash('sha256').update(`wardline-attempt\n${sessionId}\n${callId}`).digest('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`
}
