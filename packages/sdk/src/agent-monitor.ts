import { clearTimeout, setTimeout } from 'node:timers'
import { ActiveFaults } from './active-faults.ts'
import { ControlLink } from './control-link.ts'
import { DecoyChecks, isRefusal, refusals, type Verdict } from './decoy-checks.ts'
import { type Denial, denialOf, deniedError, notAllowed, uncheckedReason } from './denied.ts'
import { answerEvent, eventOf, mismatchEvent, toolCallEvent } from './events.ts'
import { MonitorError } from './faults.ts'
import { withinCall } from './guarded-call.ts'
import { KillSwitch } from './kill-switch.ts'
import { Listeners } from './listeners.ts'
import type {
  CheckOptions,
  GuardedCall,
  GuardOptions,
  Health,
  ListedTool,
  MetricName,
  ModelAnswer,
  Monitor,
  MonitorEvents,
  MonitorOptions,
  Report,
  ToolCall,
} from './monitor.ts'
import { checkOnAsk, isUnencrypted, readOptions, type Settings } from './options.ts'
import { Outputs } from './outputs.ts'
import { type Pace, usualPace } from './pace.ts'
import { AgentPolicies } from './policy/agent-policies.ts'
import { Repeat } from './repeat.ts'
import { Reports } from './reports.ts'
import { type ReadResult, Results } from './results.ts'
import { Service } from './service.ts'
import { SessionMetrics } from './session-metrics.ts'

type Tool = (...args: unknown[]) => unknown

const unencrypted = new MonitorError(
  'unencrypted',
  'url is an http address beyond this machine: anyone on the network path can read the key, and suspend or resume this agent with forged answers. Use https.',
)

export class AgentMonitor implements Monitor {
  readonly #settings: Settings
  readonly #service: Service
  readonly #pace: Pace
  readonly #listeners = new Listeners()
  readonly #faults: ActiveFaults
  readonly #killSwitch: KillSwitch
  readonly #decoys: DecoyChecks
  readonly #reports: Reports
  readonly #link: ControlLink
  readonly #results: Results
  readonly #outputs: Outputs
  readonly #policies: AgentPolicies
  readonly #sums = new SessionMetrics()
  /** Set while running; resolves after the first contact or when the wait for it is over. */
  #started: Promise<void> | undefined
  #stopping = new AbortController()

  readonly metrics = { add: (name: MetricName, value: number) => this.#addMetric(name, value) }

  constructor(settings: Settings, pace: Pace) {
    const { instanceId, checkTimeoutMs, key, resultText } = settings
    this.#settings = settings
    this.#results = new Results(key, resultText)
    this.#pace = pace
    this.#faults = new ActiveFaults(this.#listeners)
    this.#killSwitch = new KillSwitch(settings, this.#listeners)
    const service = new Service(settings)
    this.#service = service
    const faults = this.#faults
    this.#decoys = new DecoyChecks({ service, faults, instanceId, timeoutMs: checkTimeoutMs })
    this.#reports = new Reports(service, faults, pace, instanceId)
    this.#outputs = new Outputs(service, instanceId, pace.request)
    this.#policies = new AgentPolicies({
      service,
      faults,
      settings,
      pace,
      killSwitch: this.#killSwitch,
      report: (event) => void this.report(event),
    })
    this.#link = new ControlLink({
      service,
      faults,
      settings,
      pace,
      killSwitch: this.#killSwitch,
      understands: 'drill,policy,approval',
      hear: (answer) => {
        this.#decoys.learn(answer)
        return this.#policies.hear(answer)
      },
      notice: (text) => this.#policies.notice(text),
      onMismatch: (applied, serviceVersion) =>
        void this.#reports.add(mismatchEvent(applied, serviceVersion, instanceId)),
    })
    // Report the sums of the time before the suspension now: minutes later, they would look like work of a suspended
    // agent.
    this.#listeners.on('suspend', () => void this.#reportMetrics())
  }

  /** For adapters that report something else than events. */
  get access() {
    return { settings: this.#settings, service: this.#service, ready: this.#started ?? Promise.resolve() }
  }

  get instanceId(): string {
    return this.#settings.instanceId
  }

  get failMode(): Settings['failMode'] {
    return this.#settings.failMode
  }

  get signal(): AbortSignal {
    return this.#killSwitch.signal
  }

  get suspended(): boolean {
    return this.#killSwitch.suspended
  }

  get health(): Health {
    const { suspended, reason, version, lastContact, isStale } = this.#killSwitch
    return {
      running: this.#started !== undefined,
      state: suspended ? 'suspended' : 'active',
      reason,
      failMode: this.failMode,
      controlVersion: version,
      lastContact,
      stale: isStale,
      stream: this.#link.isStreamOpen ? 'open' : 'closed',
      decoys: this.#decoys.reach,
      queuedEvents: this.#reports.queued,
      droppedEvents: this.#reports.dropped,
      uncheckedCalls: this.#decoys.unchecked,
      policyVersion: this.#policies.version,
    }
  }

  on<Name extends keyof MonitorEvents>(event: Name, listener: (detail: MonitorEvents[Name]) => unknown): () => void {
    return this.#listeners.on(event, listener)
  }

  start(): Promise<void> {
    this.#started ??= this.#start()
    return this.#started
  }

  async #start(): Promise<void> {
    const { signal } = this.#stopping
    await within(this.#pace.start, this.refresh())
    if (signal.aborted) return
    this.#killSwitch.lookAtClock()
    this.#link.follow(signal)
    new Repeat(async () => this.#reportMetrics(), this.#pace.metricsWindow, signal)
  }

  async refresh(): Promise<boolean> {
    if (isUnencrypted(this.#settings.url)) this.#faults.raise('encryption', unencrypted)
    const isAnswered = await this.#link.ask()
    this.#killSwitch.lookAtClock()
    return isAnswered
  }

  async stop(): Promise<void> {
    const wasRunning = this.#started !== undefined
    this.#stopping.abort()
    this.#policies.stop()
    this.#stopping = new AbortController()
    this.#started = undefined
    this.#killSwitch.close()
    this.#reportMetrics()
    await Promise.all([this.flush(), wasRunning && this.#link.leave()])
  }

  async report(report: Report): Promise<boolean> {
    return this.#add(() => eventOf(report, this.instanceId))
  }

  async reportToolCall(call: ToolCall): Promise<boolean> {
    return this.#add(() => {
      const { toolName: tool, result } = Object(call) as ToolCall
      const read = this.#results.of(result)
      const event = toolCallEvent(call, this.instanceId, read?.result, this.#policies.learn(call))
      if (typeof event === 'object') this.#compare('result', read, tool)
      return event
    })
  }

  async reportAnswer(answer: ModelAnswer): Promise<boolean> {
    // To the service, a suspended agent that reports is at work.
    if (this.suspended) return false
    return this.#add(() => {
      const read = this.#results.of((Object(answer) as ModelAnswer).answer)
      if (!read?.result.length) return undefined
      const event = answerEvent(answer, this.instanceId, read.result)
      if (typeof event === 'object') this.#compare('answer', read)
      return event
    })
  }

  #compare(of: 'result' | 'answer', read: ReadResult | undefined, tool?: string): void {
    if (read && read.keys !== '' && this.#decoys.reach === 'some') this.#outputs.add({ of, keys: read.keys, tool })
  }

  async flush(timeoutMs = this.#pace.flush): Promise<boolean> {
    const [isSent] = await Promise.all([this.#reports.flush(timeoutMs), within(timeoutMs, this.#outputs.settled())])
    return isSent
  }

  async guard(call: GuardedCall): Promise<Denial | undefined> {
    await this.#started
    if (this.#killSwitch.denial) return this.#killSwitch.denial
    const verdict = await this.#decoys.checkCall(call)
    // The agent may have been suspended during the check. A policy does not hide that a call touches a decoy.
    const denial = this.#killSwitch.denial ?? this.#denialOf(verdict)
    if (denial) return denial
    const denied = await this.#policies.check(call)
    return this.#killSwitch.denial ?? denied
  }

  prompt(text: string, { sessionId }: { sessionId?: string | undefined } = {}): void {
    this.#policies.prompt(text, sessionId)
  }

  learnTools(tools: readonly ListedTool[]): void {
    this.#policies.learnTools(tools)
  }

  #denialOf(verdict: Verdict): Denial | undefined {
    if (verdict === 'decoy') return denialOf('decoy', notAllowed)
    if (isRefusal(verdict)) return denialOf('unchecked', uncheckedReason(refusals[verdict]))
    return verdict === 'unchecked' && this.failMode === 'closed' ? denialOf('unchecked', uncheckedReason()) : undefined
  }

  // The interface's overloads declare the result types; one implementation serves all tools.
  guardTool(toolName: string, tool: Tool, { sessionId, onDeny = 'throw', onAsk }: GuardOptions = {}) {
    if (typeof tool !== 'function') throw new TypeError(`guardTool: the tool ${toolName} must be a function`)
    if (onAsk !== undefined) checkOnAsk('guardTool', onAsk)
    const monitor = this
    return async function guarded(this: unknown, ...args: unknown[]): Promise<never> {
      const denial = await monitor.guard({ toolName, args, sessionId, onAsk })
      if (denial && onDeny === 'return') return denial as never
      if (denial) throw deniedError(denial, toolName)
      const startedAt = performance.now()
      let ok = false
      let result: unknown
      try {
        result = await withinCall(() => tool.apply(this, args))
        ok = true
        return result as never
      } finally {
        const durationMs = performance.now() - startedAt
        const params = args.length === 1 ? args[0] : args
        void monitor.reportToolCall({ toolName, durationMs, ok, sessionId, params, result })
      }
    }
  }

  guardTools<Tools extends Record<string, Tool>>(tools: Tools, options?: GuardOptions) {
    const guarded = Object.entries(tools).map(([name, tool]) => [name, this.guardTool(name, tool, options)])
    return Object.fromEntries(guarded) as { [Name in keyof Tools]: () => Promise<never> }
  }

  async checkKey(value: string, options: CheckOptions = {}): Promise<boolean> {
    return this.#denialOf(await this.#decoys.checkKey(value, options)) !== undefined
  }

  async checkPath(path: string, options: CheckOptions = {}): Promise<boolean> {
    return this.#denialOf(await this.#decoys.checkPath(path, options)) !== undefined
  }

  /** Reports contain arbitrary data of the agent, and reading it must not throw into the agent. */
  #add(make: () => ReturnType<typeof eventOf> | undefined): boolean {
    try {
      const event = make()
      return event !== undefined && this.#reports.add(event)
    } catch (fault) {
      return this.#reports.add(`it cannot be read (${(fault as Error | undefined)?.name})`)
    }
  }

  #addMetric(name: string, value: number): void {
    const fault = this.#sums.add(name, value)
    if (fault !== undefined) this.#faults.notify(new MonitorError('invalid', `A metric was not added: ${fault}.`))
  }

  #reportMetrics(): number {
    for (const event of this.#sums.take(this.instanceId)) this.#reports.add(event)
    return this.#pace.metricsWindow
  }
}

/** Waits for the work or the timeout, and keeps the process alive meanwhile. */
async function within(ms: number, work: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const bound = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms)
  })
  await Promise.race([work, bound])
  clearTimeout(timer)
}

/** Creates a monitor with shorter intervals, for tests. */
export function createMonitorWith(options: MonitorOptions, pace: Partial<Pace>): Monitor {
  return new AgentMonitor(readOptions(options), { ...usualPace, ...pace })
}
