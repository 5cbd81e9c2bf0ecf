import { PolicySet } from '@wardline/policy'
import type { ActiveFaults } from '../active-faults.ts'
import type { Denial } from '../denied.ts'
import type { KillSwitch } from '../kill-switch.ts'
import type { GuardedCall, ListedTool, ToolCall } from '../monitor.ts'
import type { Settings } from '../options.ts'
import type { Pace } from '../pace.ts'
import type { Answer, Service } from '../service.ts'
import { Approvals } from './approvals.ts'
import { readNotice } from './notices.ts'
import { Policies } from './policies.ts'
import { argumentsOf, type PolicyEvent } from './policy-events.ts'
import { PolicyGuard } from './policy-guard.ts'
import { Sessions } from './sessions.ts'

interface AgentPoliciesOptions {
  service: Service
  faults: ActiveFaults
  settings: Settings
  pace: Pace
  killSwitch: KillSwitch
  report(event: PolicyEvent): void
}

/** Tools of listings that are looked at: more than servers have. */
const maxTools = 2_000

/** Until there are policies, a session remembers only which tools answered: they may be labelled later. */
const noPolicies = (instanceId: string) => new PolicySet({ agent: { id: instanceId, tags: [] }, policies: [] })

/** Policies of one agent: what holds, what its sessions have met, and whom it asks. */
export class AgentPolicies {
  readonly #policies: Policies
  readonly #approvals: Approvals
  readonly #guard: PolicyGuard
  readonly #sessions = new Sessions()
  readonly #settings: Settings
  readonly #killSwitch: KillSwitch
  readonly #none: PolicySet
  /** Ends the waiting for people. */
  #stopping = new AbortController()

  constructor({ service, faults, settings, pace, killSwitch, report }: AgentPoliciesOptions) {
    this.#settings = settings
    this.#killSwitch = killSwitch
    this.#none = noPolicies(settings.instanceId)
    this.#policies = new Policies({ service, faults, settings, pace })
    this.#approvals = new Approvals(service, settings.instanceId, pace)
    const [policies, sessions, approvals] = [this.#policies, this.#sessions, this.#approvals]
    this.#guard = new PolicyGuard({ policies, sessions, approvals, faults, settings, report })
  }

  /** Version of the policies that hold. */
  get version(): number | undefined {
    return this.#policies.version
  }

  /** Learns from an answer whether there are newer policies, and fetches them. */
  hear(answer: Answer): Promise<void> {
    return this.#policies.learn(answer)
  }

  /** Whether a message of the control stream is about policies or approvals. */
  notice(text: string): boolean {
    const notice = readNotice(text, this.#settings.instanceId)
    if (notice?.action === 'policy') void this.#policies.announce(notice.version)
    if (notice?.action === 'approval') this.#approvals.notice(notice.id)
    return notice !== undefined
  }

  check(call: GuardedCall): Promise<Denial | undefined> {
    const signals = [this.#killSwitch.signal, this.#stopping.signal, ...(call.signal ? [call.signal] : [])]
    return this.#guard.check(call, call.onAsk ?? this.#settings.onAsk, signals)
  }

  prompt(text: string, sessionId: string | undefined): void {
    if (typeof text === 'string' && text !== '') this.#sessions.prompt(text, sessionId)
  }

  learnTools(tools: readonly ListedTool[]): void {
    const isListed = (tool: unknown) => typeof (Object(tool) as { name?: unknown }).name === 'string'
    if (Array.isArray(tools)) this.#policies.setTools(tools.slice(0, maxTools).filter(isListed))
  }

  /** Remembers a call that ran, and returns what its event says of the flow of data before it. */
  learn({ toolName: tool, params, result, sessionId }: ToolCall): object | undefined {
    if (typeof tool !== 'string') return undefined
    const memory = this.#sessions.memoryOf(sessionId)
    const call = { tool, args: argumentsOf(params) }
    const set = this.#policies.loaded
    const flow = set?.flowFacts(memory, call)
    if (set) set.learn(memory, call, result)
    else this.#none.learn(memory, call, undefined)
    return flow
  }

  stop(): void {
    this.#policies.stop()
    this.#stopping.abort()
    this.#stopping = new AbortController()
  }
}
