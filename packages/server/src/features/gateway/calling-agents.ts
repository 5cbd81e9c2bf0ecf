import type { ControlMessage } from '@wardline/contract'
import type { Deps } from '../../deps.ts'
import { DatabaseError } from '../../errors.ts'
import type { Principal } from '../../http/auth.ts'
import type { KnownState } from '../control/control-states.ts'
import { callingAgentType } from '../instances/heard-by.ts'
import { ObservedAgents, type ObservedParts } from '../instances/observed-agents.ts'
import { noteModelCall } from '../instances/reach-statements.ts'
import { noteModelCut } from '../suspensions/suspension-statements.ts'
import { type FormatError, Refusal } from './formats.ts'
import { KnownAgents } from './known-agents.ts'

/** Suspensions that are remembered as noted: more than have calls within a few seconds. */
const maxCut = 10_000

export interface AgentParts extends ObservedParts {
  controlStates: { peek(id: string): KnownState | undefined; readStored(id: string): Promise<KnownState | undefined> }
}

export const suspendedText = (reason: string | null): FormatError => ({
  status: 403,
  message: `This agent is suspended by Wardline: ${reason ?? 'no reason was given'}. An operator has to resume it.`,
})

/** Whether the database did not answer. A conflict is no outage: an agent could cause one to avoid its budget. */
const isAway = (fault: unknown): boolean =>
  fault instanceof DatabaseError && !fault.constraint && !fault.stale && !fault.busy

/** The agents that call models: refuses suspended ones, registers new ones, and records that the gateway holds them. */
export class CallingAgents {
  readonly #deps: Deps
  readonly #parts: AgentParts
  readonly #known = new KnownAgents()
  readonly #observed: ObservedAgents
  /** Control versions of suspensions that this process has noted as applied. */
  readonly #cut = new Map<string, number>()
  /** Answers of the database so far. One that came while another call waited in vain shows that it is not away. */
  #answers = 0
  /** Whether calls go on without a check since the database went away. */
  #isUnchecked = false

  constructor(deps: Deps, parts: AgentParts) {
    this.#deps = deps
    this.#parts = parts
    this.#observed = new ObservedAgents(deps, parts, { witness: 'gateway', agentType: callingAgentType })
  }

  /** Takes a kill or a resume in. `isCalling`: the agent has calls open. */
  hear(message: ControlMessage, isCalling: boolean): void {
    const { instance_id: id, action, version } = message
    if (isCalling || this.#known.get(id)) this.#known.hear(message)
    if (action === 'suspend' && (isCalling || this.#observed.has(id))) this.#noteCut(id, version)
  }

  /** Records once that the calls of a suspended agent are refused. */
  #noteCut(instanceId: string, version: number): void {
    if (this.#cut.get(instanceId) === version) return
    if (this.#cut.size >= maxCut) this.#cut.clear()
    this.#cut.set(instanceId, version)
    const { database, clock, log } = this.#deps
    noteModelCut(database.db, instanceId, version, clock.now()).catch((fault) => {
      this.#cut.delete(instanceId)
      log.warn({ err: fault }, 'that the gateway holds an agent is not recorded yet')
    })
  }

  #refuseSuspended(instanceId: string, known: Pick<KnownState, 'version' | 'state'> | undefined): void {
    if (!known?.state.suspended) return
    this.#noteCut(instanceId, known.version)
    throw new Refusal(403, suspendedText(known.state.reason).message, 'suspended')
  }

  /**
   * Refuses the call of a suspended agent, and registers an agent that is not known. Returns false if the call may go on
   * although the database is away.
   */
  async assertActive(instanceId: string, principal: Principal, address: string | null): Promise<boolean> {
    const answers = this.#answers
    try {
      const known = await this.#findState(instanceId)
      this.#refuseSuspended(instanceId, known)
      await this.#sayAlive(instanceId, principal, address)
      this.#isUnchecked = false
      return true
    } catch (fault) {
      if (isAway(fault)) this.#refuseSuspended(instanceId, this.#known.get(instanceId))
      await this.#assertMayGoOn(instanceId, fault, answers)
      return false
    }
  }

  /** Does a check of a call. Returns undefined if it failed by an outage during which the calls of this agent go on. */
  async check<Result>(instanceId: string, work: () => Promise<Result>): Promise<Result | undefined> {
    const answers = this.#answers
    try {
      const result = await work()
      this.#answers += 1
      return result
    } catch (fault) {
      await this.#assertMayGoOn(instanceId, fault, answers)
      return undefined
    }
  }

  /** Throws the fault, unless it is an outage during which the calls of this agent go on. */
  async #assertMayGoOn(instanceId: string, fault: unknown, answers: number): Promise<void> {
    const { config, log } = this.#deps
    if (!isAway(fault)) this.#answers += 1
    // A busy event loop handles what timed out before the answers that have arrived.
    await new Promise((resolve) => setImmediate(resolve))
    // Thousands of calls of one agent wait too long as well, and must not avoid its budget by it.
    const isOutage = isAway(fault) && this.#answers === answers
    if (config.gatewayFail === 'closed' || !isOutage || !this.#known.get(instanceId)) throw fault
    // A kill may have arrived in between.
    this.#refuseSuspended(instanceId, this.#known.get(instanceId))
    if (this.#isUnchecked) return
    this.#isUnchecked = true
    log.warn({ err: fault }, 'the database is away: calls of known agents go on unchecked (WARDLINE_GATEWAY_FAIL=open)')
  }

  async #findState(instanceId: string): Promise<KnownState | undefined> {
    const { controlStates } = this.#parts
    const before = this.#known.get(instanceId)
    let known = controlStates.peek(instanceId)
    if (!known) {
      known = await controlStates.readStored(instanceId)
      this.#answers += 1
    }
    if (known) this.#known.note(instanceId, known, before)
    return known
  }

  /** Registers an agent that is not known, and sends the heartbeats of one that only the gateway hears. */
  async #sayAlive(instanceId: string, principal: Principal, address: string | null): Promise<void> {
    const { due, unknown, refused } = await this.#observed.sayAlive([instanceId], principal, address)
    if (due.length === 0) return
    const refusal = refused.get(instanceId)
    if (refusal) throw refusal
    // An agent can begin suspended.
    if (unknown.has(instanceId)) this.#refuseSuspended(instanceId, await this.#findState(instanceId))
    const { database, clock, log } = this.#deps
    noteModelCall(database.db, instanceId, clock.now()).catch((fault) =>
      log.warn({ err: fault }, 'a call of a model is not recorded as a way to hold its agent'),
    )
  }
}
