import type { Denial } from './denied.ts'
import type { MonitorError } from './faults.ts'

/**
 * What the agent does while the service is unreachable: `open` keeps the last known state; `closed` suspends the agent
 * after `staleAfterMs` and denies calls that cannot be checked for decoys.
 */
export type FailMode = 'open' | 'closed'

/**
 * What happens to a call about which a policy asks a person: `wait` until it is approved, denied or expired, or `deny` it
 * at once, with a reason that contains the id of the approval; the retry of an approved call runs.
 */
export type OnAsk = 'wait' | 'deny'

export type Severity = 'info' | 'warning' | 'critical' | 'breach'

export interface MonitorOptions {
  /** Address of the service, such as https://wardline.example or http://127.0.0.1:4747. A path before /api is kept. */
  url: string
  /** API key of scope `agent` for this instance. */
  key: string
  /** Lower-case letters, digits, _ and -, at most 64. */
  instanceId: string
  /** Display name, at most 80 characters; default: the instance id. */
  name?: string
  /** For example `custom` or `langgraph`; at most 100 characters. */
  agentType?: string
  /** Version of the agent, at most 100 characters. */
  version?: string
  /**
   * Shown in the fleet next to the operators' tags: at most 20, each of 1 to 40 lower-case letters, digits, _ . : and
   * -. Default: keep the tags sent last.
   */
  tags?: readonly string[]
  /**
   * Instance id of the agent that started this one, such as `process.env.WARDLINE_PARENT`; empty, or its own id: none.
   * While that agent is suspended, so is this one. Set once, for good.
   */
  parent?: string | undefined
  /**
   * The `x` of a key in `/.well-known/wardline-keys.json`, or up to 8 separated by commas. Control messages without a
   * signature by one of them are ignored.
   */
  publicKey?: string | undefined
  /** Default: `open`. */
  failMode?: FailMode
  /** Milliseconds without contact after which the state counts as stale; default: 120,000. */
  staleAfterMs?: number
  /**
   * Timeout in milliseconds for the decoy checks of one call; default: 1,000. Large arguments get more time, and a
   * harmless check another 500 ms, which tells whether the service is away.
   */
  checkTimeoutMs?: number
  /**
   * File that preserves a suspension across restarts of the agent, and the policies beside it (`<stateFile>.policy`). Its
   * folder must exist. Each instance needs a separate file.
   */
  stateFile?: string
  /** File to which each suspension and resume is appended as a line of JSON; default: `<stateFile>.log`. */
  suspendLog?: string
  /**
   * Also report the text of results and answers, without secrets and at most 1,000 characters. Default: false, only
   * their length, a keyed hash and the formats of secrets in them.
   */
  resultText?: boolean
  /** Default: `wait`. */
  onAsk?: OnAsk
}

/**
 * An event to report. Secrets are removed from texts and metadata. At most 12 KiB of metadata is sent; the service
 * accepts 16 KiB of JSON.
 */
export interface Report {
  severity: Severity
  /** snake_case, at most 100 characters. */
  eventType: string
  /** Text for people; truncated after 1,000 characters. */
  description: string
  sessionId?: string | undefined
  metadata?: Record<string, unknown> | undefined
}

export interface ToolCall {
  toolName: string
  durationMs?: number | undefined
  /** Whether the call succeeded; default: true. */
  ok?: boolean | undefined
  sessionId?: string | undefined
  /** As the model named the call, so that telemetry of it is not counted again; at most 200 characters. */
  callId?: string | undefined
  /** Arguments of the call. Reported without secrets, and at most 4 KiB of them. */
  params?: unknown
  /** Result of the call. Its text is reported only with `resultText`. */
  result?: unknown
}

export interface ModelAnswer {
  /** The text, or parts with texts. Reported like the result of a tool. */
  answer: unknown
  sessionId?: string | undefined
}

export interface GuardedCall {
  toolName: string
  /** Arguments of the tool. The texts in them are compared with the decoys and never reported; policies read them. */
  args?: unknown
  /** What is compared with the decoys, if that is more than the arguments. */
  decoyArgs?: unknown
  sessionId?: string | undefined
  /** As the model named the call; at most 200 characters. */
  callId?: string | undefined
  /** Whether the main agent or a subagent makes the call. Default: unknown, so rules for one of them that deny or ask take effect. */
  scope?: 'main' | 'subagent' | undefined
  /** Base folder of relative paths; default: the working directory of the process. */
  cwd?: string | undefined
  /** Default: that of the monitor. */
  onAsk?: OnAsk | undefined
  /** Called once, with the id of the approval, when the call begins to wait for a person. */
  onWait?: ((approvalId: string) => void) | undefined
  /** Ends the waiting for a person, for example because the caller has gone. The call is denied. */
  signal?: AbortSignal | undefined
}

/** A tool as MCP lists it. */
export interface ListedTool {
  name: string
  description?: string
  inputSchema?: { properties?: Readonly<Record<string, unknown>>; required?: readonly string[] }
  annotations?: { readOnlyHint?: boolean; destructiveHint?: boolean; openWorldHint?: boolean }
}

export interface CheckOptions {
  tool?: string
  /** Base folder of a relative path; default: the working directory of the process. */
  cwd?: string
  /** The path with symbolic links resolved. */
  realPath?: string
}

export interface GuardOptions {
  sessionId?: string
  /** `throw` a WardlineDenied (default; a CallDenied if a policy denies the call), or `return` the denial as the tool's result for the model. */
  onDeny?: 'throw' | 'return'
  /** Default: that of the monitor. */
  onAsk?: OnAsk
}

// biome-ignore lint/suspicious/noExplicitAny: any function may be a tool
type Tool = (...args: any[]) => unknown
export type Guarded<Fn extends Tool> = (...args: Parameters<Fn>) => Promise<Awaited<ReturnType<Fn>>>
export type GuardedOrDenial<Fn extends Tool> = (...args: Parameters<Fn>) => Promise<Awaited<ReturnType<Fn>> | Denial>

export interface Health {
  /** True between start() and stop(). */
  running: boolean
  state: 'active' | 'suspended'
  /** Reason of the suspension; undefined while active. */
  reason: string | undefined
  failMode: FailMode
  /** Version of the last applied kill or resume; undefined before the first contact. */
  controlVersion: number | undefined
  /** Time when the service last sent or confirmed the control state. */
  lastContact: Date | undefined
  /** No contact for `staleAfterMs`: `open` keeps the last known state, `closed` suspends the agent. */
  stale: boolean
  /** Whether kills are pushed. Polling continues in either case. */
  stream: 'open' | 'closed'
  /** Whether any decoys exist; with `none`, calls are not checked. */
  decoys: 'none' | 'some' | 'unknown'
  queuedEvents: number
  /** Events lost because the queue was full or the service refused them. */
  droppedEvents: number
  /** Calls that were not checked for decoys, or only in part. */
  uncheckedCalls: number
  /** Version of the policies that hold; undefined if the agent has none. */
  policyVersion: number | undefined
}

export interface ControlChange {
  /** Undefined when the agent suspended itself after losing contact (`failMode: 'closed'`). */
  version: number | undefined
  reason: string | undefined
}

export interface MonitorEvents {
  suspend: ControlChange
  resume: ControlChange
  error: MonitorError
}

/** Metrics that the service compares with the instance's baseline. Other names are accepted too. */
export type MetricName =
  | 'tool_calls_per_5min'
  | 'unique_tools_used'
  | 'avg_response_length'
  | 'shell_exec_count'
  | 'http_request_count'
  | 'injection_attempt_count'
  | 'egress_blocked_count'
  | (string & {})

/**
 * Monitors one agent. No method throws or rejects because of a fault; only guarded tools throw, when a call is denied.
 * Listeners of `error` get each kind of fault once until it is over. A monitor does not keep the process alive.
 *
 * Adapters for frameworks call `guard` before a tool call and `reportToolCall` after it, or use `guardTool` with
 * `onDeny: 'return'`, and pass `signal` to the framework.
 */
export interface Monitor {
  readonly instanceId: string
  readonly failMode: FailMode
  /**
   * Aborts on suspension, with a WardlineDenied as its reason. A resume creates a new signal, so read this property
   * again.
   */
  readonly signal: AbortSignal
  readonly suspended: boolean
  readonly health: Health

  /**
   * Registers the instance and listens for kills. Resolves after the first contact or a failed attempt, at the latest
   * after 5 seconds.
   */
  start(): Promise<void>
  /**
   * Sends one heartbeat and polls the kill switch once, for short-lived processes that do not call start(). False when
   * the service did not answer.
   */
  refresh(): Promise<boolean>
  /** Sends queued events for at most 5 seconds and closes all connections. A suspension remains in effect. */
  stop(): Promise<void>

  /** Adds a listener and returns a function that removes it. */
  on<Name extends keyof MonitorEvents>(event: Name, listener: (detail: MonitorEvents[Name]) => unknown): () => void

  /**
   * Queues an event and resolves immediately; false when it is invalid or the queue is full. Use flush() to wait until
   * it is stored.
   */
  report(report: Report): Promise<boolean>
  /** Queues a `tool_call` event; otherwise like report(). */
  reportToolCall(call: ToolCall): Promise<boolean>
  /**
   * Queues a `model_answer` event for what the agent answers to its user or to another agent; otherwise like report().
   * False as well for an answer without a text, and while the agent is suspended.
   */
  reportAnswer(answer: ModelAnswer): Promise<boolean>
  /** Sends queued events; false when some are left after `timeoutMs` (default: 5,000). */
  flush(timeoutMs?: number): Promise<boolean>
  readonly metrics: {
    /** Adds to a sum that is reported as `session_metrics` every 5 minutes, on suspension and by stop(). */
    add(name: MetricName, value: number): void
  }

  /**
   * Remembers what a person wrote, at most 256 Ki characters. After untrusted text, a policy with a flow lets a call pass
   * whose destination stands in a prompt. Call it only with the words of the agent's user, never with what a model or a
   * tool wrote. The adapters call it where the framework says who wrote a text.
   */
  prompt(text: string, options?: { sessionId?: string | undefined }): void
  /** Learns what tool servers list, for policies that do not name these tools. Replaces the tools learnt before. */
  learnTools(tools: readonly ListedTool[]): void

  /**
   * Returns a denial if the agent is suspended, an argument contains a decoy, the arguments could not be checked and must
   * be, a policy denies the call, or a person did not approve it. Waits for start(), and for the person unless `onAsk` is
   * `deny`.
   */
  guard(call: GuardedCall): Promise<Denial | undefined>
  /** Wraps a tool with a guard before each call and a report after it. */
  guardTool<Fn extends Tool>(
    toolName: string,
    tool: Fn,
    options: GuardOptions & { onDeny: 'return' },
  ): GuardedOrDenial<Fn>
  guardTool<Fn extends Tool>(toolName: string, tool: Fn, options?: GuardOptions): Guarded<Fn>
  /** Wraps each tool like guardTool(), under its property name. */
  guardTools<Tools extends Record<string, Tool>>(
    tools: Tools,
    options: GuardOptions & { onDeny: 'return' },
  ): { [Name in keyof Tools]: GuardedOrDenial<Tools[Name]> }
  guardTools<Tools extends Record<string, Tool>>(
    tools: Tools,
    options?: GuardOptions,
  ): { [Name in keyof Tools]: Guarded<Tools[Name]> }

  /**
   * True when the text contains a decoy key, so it must not be used; with `failMode: 'closed'`, also when the check
   * failed.
   */
  checkKey(value: string, options?: CheckOptions): Promise<boolean>
  /** Like checkKey() for a path, or a command that contains paths. */
  checkPath(path: string, options?: CheckOptions): Promise<boolean>
}
