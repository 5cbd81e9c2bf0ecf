import { existsSync } from 'node:fs'
import { stdin } from 'node:process'
import { ActiveFaults } from '../active-faults.ts'
import { DecoyChecks, isRefusal, refusals, reservedMs, workingFolder } from '../decoy-checks.ts'
import { notAllowed, suspendedReason, uncheckedReason } from '../denied.ts'
import { answerEvent, mismatchEvent, toolResultEvent } from '../events.ts'
import { contentOf } from '../guarded-call.ts'
import { Listeners } from '../listeners.ts'
import { outputBody, outputRoute } from '../outputs.ts'
import { Results } from '../results.ts'
import { isNewSuspension } from '../wire.ts'
import { AgentMemory } from './agent-memory.ts'
import {
  type AgentSettings,
  type CodingTool,
  type Environment,
  type InvalidSettings,
  readAgentSettings,
  stateFolder,
} from './agent-settings.ts'
import { type ControlCheck, checkControl, judge, poll } from './control-check.ts'
import { asking, canAskUser, denying, type HookAnswer, type HookProgress, passing } from './hook-answer.ts'
import { type HookCall, type InvalidInput, isLarge, parseCall, readInput, unreadableCall } from './hook-input.ts'
import type { HookPolicy, PolicyVerdict } from './hook-policy.ts'
import { HookReports, idempotencyKey, reportMs } from './hook-reports.ts'
import { PlainService } from './plain-service.ts'
import { realPaths } from './real-paths.ts'

/** Limit in milliseconds for the poll, and for the checks after it unless the arguments are long. */
const checksMs = 1_500
/**
 * When all checks have ended, in milliseconds since the process started, so that nothing before them extends the time.
 * With the report they stay below the coding agent's limit of 5 seconds.
 */
const checksEndAt = 3_900
/** Time for the decoy checks after the kill switch did not answer: enough for a service that fails only there. */
const minChecksMs = 200
/** Leaves the time for these checks also when the process was slow to start. */
const pollEndAt = checksEndAt - reservedMs - minChecksMs
/** Until when reading and reporting the configuration, half a second each, end with the report. */
const configurationStartsBy = 3_400

interface HookRequest {
  /** Undefined: detected from the call. */
  tool: CodingTool | undefined
  failClosed: boolean
  env: Environment
  /** Kept up to date for the caller, which answers after a failure. */
  progress: HookProgress
}

/** Reads a call from standard input and decides on it: within 2 seconds without a service, within 4 in any case. */
export async function answerHook({ tool: given, failClosed, env, progress }: HookRequest): Promise<HookAnswer> {
  const input = readCall(given, progress)
  const tool = given ?? toolOf(await input)
  const settings = readAgentSettings(env, tool ?? 'claude-code', failClosed)
  progress.failMode = settings.failMode
  if ('fault' in settings) return answerWithout(settings, stateFolder(env), await input, tool)
  const memory = new AgentMemory(stateFolder(env), settings.url, settings.instanceId)
  const decision = new Decision(settings, memory, tool, progress)
  const answer = await decision.answer(input)
  progress.decided = answer
  await decision.reportConfiguration(await input, env)
  return answer
}

async function readCall(given: CodingTool | undefined, progress: HookProgress): Promise<HookCall | InvalidInput> {
  const input = await readInput(stdin, checksMs)
  progress.mustCheck ||= typeof input === 'string' ? isLarge(input.length) : input.isTooLarge === true
  return typeof input === 'string' ? parseCall(input, given) : input
}

const toolOf = (call: HookCall | InvalidInput): CodingTool | undefined => ('fault' in call ? undefined : call.tool)

const eventOf = (call: HookCall | InvalidInput): string | undefined => ('fault' in call ? undefined : call.event)

/** Whether the event is not a call about to be made. */
const isOther = (call: HookCall | InvalidInput): boolean => !('fault' in call) && !call.isBefore

const outputOf = (call: HookCall | InvalidInput) => ('fault' in call ? undefined : (call.outcome ?? call.answer))

/** Answers without valid settings, and thus without a service: by the last known suspension, else by the fail mode. */
function answerWithout(
  { fault, failMode, url, instanceId }: InvalidSettings,
  folder: string,
  call: HookCall | InvalidInput,
  tool: CodingTool | undefined,
): HookAnswer {
  const event = eventOf(call)
  if (isOther(call)) return passing(tool, [], event)
  const known = url && instanceId ? new AgentMemory(folder, url, instanceId).latest() : undefined
  if (known?.suspended) return denying(tool, suspendedReason(known.reason))
  return failMode === 'closed' ? denying(tool, uncheckedReason(fault)) : passing(tool, [fault], event)
}

interface DecoyVerdict {
  /** Reason of a denial that applies in every fail mode. */
  denial?: string | undefined
  /** Why the call could not be checked for decoys. */
  fault?: string | undefined
}

interface CheckTimes {
  timeoutMs: number
  maxProbeMs?: number
}

/** The decision on one call. */
class Decision {
  readonly #settings: AgentSettings
  readonly #memory: AgentMemory
  readonly #tool: CodingTool | undefined
  readonly #progress: HookProgress
  readonly #service: PlainService
  readonly #reports: HookReports
  readonly #startedAt = performance.now()
  /** Highest version of a suspension that the header of an answer announced. */
  #announced: number | undefined
  /** What the service last said of the kill switch; undefined before its answer. */
  #control: ControlCheck | undefined
  /** Sentences about failed checks and failed writes. */
  readonly #faults: string[] = []
  readonly #warnings: string[] = []

  constructor(settings: AgentSettings, memory: AgentMemory, tool: CodingTool | undefined, progress: HookProgress) {
    this.#settings = settings
    this.#memory = memory
    this.#tool = tool
    this.#progress = progress
    this.#service = this.#open(checksEndAt + reportMs)
    this.#reports = new HookReports(this.#service, memory, settings.instanceId)
  }

  #open(deadline: number): PlainService {
    const service = new PlainService(this.#settings, deadline)
    service.onSuspended = (version) => {
      this.#announced = Math.max(this.#announced ?? 0, version)
    }
    return service
  }

  async answer(input: Promise<HookCall | InvalidInput>): Promise<HookAnswer> {
    // Poll the kill switch while the input is read.
    const asked = this.#checkControl()
    const call = await input
    // It is over: a failure of the hook must not look like a denial, which some coding agents answer by going on.
    if (isOther(call)) this.#progress.decided = passing(this.#tool, [], eventOf(call))
    if (isOther(call)) await this.#remember(call as HookCall)
    if (isOther(call) && !outputOf(call)) return passing(this.#tool, [], eventOf(call))
    const first = await asked
    this.#control = first
    if (isOther(call)) return this.#reportOutput(call as HookCall, first)
    // From here on the arguments, not an outage, are the likely cause of a failure.
    this.#progress.mustCheck ||= first.isAnswered
    const verdict = await this.#verdict(call, first)
    const checked = this.#denial(first, verdict)
    // A policy does not hide that a call touches a decoy.
    const decided = checked === undefined ? await this.#decide(call, first) : undefined
    const control = await this.#latest(first)
    this.#control = control
    const isKilled = control.state?.suspended === true && !first.state?.suspended
    const policy = isKilled ? undefined : decided
    const denial = isKilled ? suspendedReason(control.state?.reason) : (checked ?? policy?.denial?.reason)
    const answer = () => {
      if (denial !== undefined) return denying(this.#tool, denial)
      if (policy?.ask !== undefined) return asking(this.#tool, policy.ask)
      return passing(this.#tool, [...this.#faults, ...this.#warnings], eventOf(call))
    }
    this.#progress.decided = answer()
    await this.#settle(call, control, denial === undefined, policy)
    if (denial !== undefined) return answer()
    const last = await this.#latest(control)
    this.#control = last
    if (!last.state?.suspended) return answer()
    this.#progress.decided = denying(this.#tool, suspendedReason(last.state.reason))
    await this.#keep(last)
    return this.#progress.decided
  }

  /** Reports the configuration of the coding agent, if that is due. Nothing in it is a fault of the decided call. */
  async reportConfiguration(call: HookCall | InvalidInput, env: Environment): Promise<void> {
    // To the service, a suspended agent that reports is at work.
    if (!this.#control?.isAnswered || this.#control.state?.suspended || !this.#tool) return
    if (performance.now() > configurationStartsBy) return
    try {
      if (!this.#memory.takeConfigurationTurn()) return
      const { reportConfiguration } = await import('./configuration-report.ts')
      const [settings, memory, service] = [this.#settings, this.#memory, this.#service]
      const cwd = 'fault' in call ? undefined : call.cwd
      await reportConfiguration({ tool: this.#tool, env, settings, memory, service, cwd })
    } catch {
      // The next turn repeats it.
    }
  }

  /** Polls again if an answer since then announced a suspension: until the hook has answered, the call can be denied. */
  async #latest(control: ControlCheck): Promise<ControlCheck> {
    const announced = this.#announced
    if (announced === undefined || !isNewSuspension(announced, control.state)) return control
    const service = this.#service
    const answer = await poll({ service, settings: this.#settings, timeoutMs: reportMs })
    this.#announced = undefined
    const { state, isAnswered, news, ahead } = judge({ service, known: control.state }, answer)
    return isAnswered && state?.suspended ? { ...control, state, news, ahead } : control
  }

  /** Remembers a prompt or a result for the policies of the session. */
  async #remember(call: HookCall): Promise<void> {
    if (call.prompt === undefined && !call.outcome) return
    const policy = await this.#policy(0)
    if (call.prompt !== undefined) policy?.prompt(call.prompt, call.sessionId)
    else await policy?.result(call)
  }

  /** Returns undefined without policies, which takes no time then. */
  async #policy(announced: number): Promise<HookPolicy | undefined> {
    if (announced === 0 && !existsSync(this.#memory.policyFile)) return undefined
    const { HookPolicy } = await import('./hook-policy.ts')
    const service = this.#open(checksEndAt)
    return new HookPolicy({ settings: this.#settings, memory: this.#memory, service })
  }

  async #decide(call: HookCall | InvalidInput, control: ControlCheck): Promise<PolicyVerdict | undefined> {
    const announced = control.policyVersion
    const policy = await this.#policy(announced)
    if (!policy) return undefined
    // What cannot be read is a call of an unknown tool, with arguments of which a rule says nothing.
    const known = 'fault' in call ? unreadableCall(this.#tool, call) : call
    const canAsk = this.#settings.onAsk === 'ask' && canAskUser(this.#tool, known.event, known.permissionMode)
    const endsAt = control.isAnswered ? checksEndAt : undefined
    const verdict = await policy.decide(known, { announced, canAsk, endsAt })
    this.#warnings.push(...verdict.faults)
    return verdict
  }

  /**
   * Reports how a call went, which can no longer be denied, or an answer. To the service, a suspended agent that reports
   * is at work.
   */
  async #reportOutput(call: HookCall, { state }: ControlCheck): Promise<HookAnswer> {
    const { key, resultText, instanceId } = this.#settings
    const { toolName, sessionId, callId, outcome, answer } = call
    const read = new Results(key, resultText).of(outcome ? (contentOf(outcome.result) ?? outcome.result) : answer)
    if (state?.suspended || (!outcome && !read)) return passing(this.#tool, [], call.event)
    const event = outcome
      ? toolResultEvent({ toolName, ok: outcome.ok, sessionId }, instanceId, read?.result)
      : answerEvent({ answer, sessionId }, instanceId, read!.result)
    const output = outcome ? { of: 'result' as const, tool: toolName } : { of: 'answer' as const }
    await Promise.all([
      this.#service.call('events/batch', {
        body: JSON.stringify([event]),
        headers: { 'idempotency-key': idempotencyKey(sessionId, callId && `${callId} result`) },
        timeoutMs: reportMs,
      }),
      read?.keys &&
        this.#service.call(outputRoute, {
          body: outputBody({ ...output, keys: read.keys }, instanceId),
          timeoutMs: reportMs,
        }),
    ])
    return passing(this.#tool, [], call.event)
  }

  #verdict(call: HookCall | InvalidInput, { state, isAnswered }: ControlCheck): DecoyVerdict | Promise<DecoyVerdict> {
    // To the service, an agent that checks decoys while it is suspended is at work.
    if (state?.suspended) return {}
    if ('fault' in call && call.isTooLarge) return { denial: uncheckedReason(call.fault) }
    // A service that has not answered the poll gets no second full wait.
    const passed = performance.now() - this.#startedAt
    const timeoutMs = isAnswered ? checksMs : Math.max(minChecksMs, checksMs - passed)
    const times = isAnswered ? { timeoutMs, maxProbeMs: checksMs } : { timeoutMs }
    return 'fault' in call ? this.#verdictOnText(call, times) : this.#checkDecoys(call, times)
  }

  /** Searches also input that cannot be parsed. */
  async #verdictOnText({ fault, text }: InvalidInput, times: CheckTimes): Promise<DecoyVerdict> {
    if (!text) return { fault }
    const call = { toolName: 'unknown', args: text, readings: [text], cwd: undefined }
    const { denial } = await this.#checkDecoys(call, times)
    return { denial, fault }
  }

  #denial({ state, fault }: ControlCheck, verdict: DecoyVerdict): string | undefined {
    if (state?.suspended) return suspendedReason(state.reason)
    if (verdict.denial !== undefined) return verdict.denial
    // If one request got no response, the other mostly got none either: report one fault.
    const missing = fault ?? verdict.fault
    if (missing !== undefined) this.#faults.push(missing)
    const isClosed = this.#settings.failMode === 'closed'
    return isClosed && this.#faults.length > 0 ? uncheckedReason(...this.#faults) : undefined
  }

  #checkControl(): Promise<ControlCheck> {
    return checkControl({
      service: this.#open(Math.min(this.#startedAt + checksMs + reportMs, pollEndAt)),
      settings: this.#settings,
      known: this.#known(),
      isBeatDue: this.#memory.isBeatDue,
      timeoutMs: checksMs,
    })
  }

  #known() {
    try {
      return this.#memory.latest()
    } catch (fault) {
      const { code } = fault as { code?: string }
      // The log is only needed if the service does not answer.
      this.#warnings.push(`The suspend log ${this.#memory.suspendLog} cannot be read (${code}).`)
      return undefined
    }
  }

  async #checkDecoys(
    { toolName, args, readings, cwd = workingFolder() }: Pick<HookCall, 'toolName' | 'args' | 'readings' | 'cwd'>,
    times: CheckTimes,
  ): Promise<DecoyVerdict> {
    const listeners = new Listeners()
    const { instanceId } = this.#settings
    const faults = new ActiveFaults(listeners)
    const service = this.#open(checksEndAt)
    const checks = new DecoyChecks({ service, faults, instanceId, endsAt: checksEndAt, ...times })
    let fault = 'The arguments cannot be read.'
    listeners.on('error', (error) => {
      fault = error.message
    })
    withoutFetch()
    const verdict = await checks.checkCall({ toolName, args: [...readings, realPaths(args, cwd)], cwd })
    if (verdict === 'decoy') return { denial: notAllowed }
    if (isRefusal(verdict)) return { denial: uncheckedReason(refusals[verdict]) }
    return verdict === 'unchecked' ? { fault } : {}
  }

  /** Stores a received state, and sends acknowledgement and reports. */
  async #settle(
    call: HookCall | InvalidInput,
    control: ControlCheck,
    passes: boolean,
    policy: PolicyVerdict | undefined,
  ): Promise<void> {
    const report = async () => {
      if (!('fault' in call)) this.#warn(await this.#reports.report(call, control.isAnswered, passes, policy))
    }
    await this.#keep(control, report)
  }

  /** Stores and acknowledges a received state. Calls `meanwhile` before the acknowledgement is answered. */
  async #keep(control: ControlCheck, meanwhile = async () => {}): Promise<void> {
    try {
      this.#memory.makeFolder()
      if (control.news) this.#warn(this.#memory.keep(control.news, control.ahead !== undefined))
      if (control.isAnswered) this.#memory.noteContact()
      if (control.hasBeaten) this.#memory.noteBeat()
      const { news, ahead } = control
      const acknowledged = news && this.#acknowledge(news.version)
      if (news && ahead !== undefined) await this.#reportMismatch(ahead, news.version)
      else if (ahead !== undefined)
        this.#warnings.push(`The service reports an older control version than this hook has (${ahead}).`)
      await meanwhile()
      await acknowledged
    } catch (fault) {
      const { code, message } = fault as { code?: string; message: string }
      this.#warnings.push(`The state of the hook cannot be stored (${code ?? message}).`)
    }
  }

  #warn(fault: string | undefined): void {
    if (fault !== undefined) this.#warnings.push(fault)
  }

  /** After a failure, the next heartbeat carries the version. */
  #acknowledge(version: number): Promise<unknown> {
    const body = JSON.stringify({ version })
    return this.#service.call(`instances/${this.#settings.instanceId}/ack`, { body, timeoutMs: reportMs })
  }

  /** Reported once per pair of versions, because concurrent calls detect the same mismatch. */
  #reportMismatch(ahead: number, serviceVersion: number): Promise<unknown> {
    const { instanceId } = this.#settings
    return this.#service.call('events/batch', {
      body: JSON.stringify([mismatchEvent(ahead, serviceVersion, instanceId)]),
      headers: { 'idempotency-key': `mismatch ${instanceId} ${ahead} ${serviceVersion}` },
      timeoutMs: reportMs,
    })
  }
}

/**
 * Replaces the global `Headers` by a stub. Arguments from JSON contain none, but an instanceof check would load all of
 * `fetch`, which takes 20 ms. Redefining without deleting would load it too, because that reads the old value.
 */
function withoutFetch(): void {
  Reflect.deleteProperty(globalThis, 'Headers')
  Object.defineProperty(globalThis, 'Headers', { value: class Headers {}, configurable: true, writable: true })
}
