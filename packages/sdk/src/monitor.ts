import type { Denial } from './denied.ts'
import type { MonitorError } from './faults.ts'

/**
 * Behaviour while the service is unreachable. `open`: keep the last known state. `closed`: suspend the agent after
 * `staleAfterMs`, and deny calls that cannot be checked for decoys.
 */
export type FailMode = 'open' | 'closed'

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
   * Tags of the agent, in addition to those set by operators: at most 20, each of 1 to 40 lower-case letters, digits,
   * _ . : and -. Default: the previous tags stay.
   */
  tags?: readonly string[]
  /**
   * The `x` of a key in `/.well-known/wardline-keys.json`, or up to 8 of them separated by commas. If set, control
   * messages without a valid signature by one of these keys are ignored.
   */
  publicKey?: string | undefined
  /** Default: `open`. */
  failMode?: FailMode
  /** Milliseconds without contact after which the state counts as stale; default: 120,000. */
  staleAfterMs?: number
  /** Maximum milliseconds for the decoy checks of one call; default: 1,000. */
  checkTimeoutMs?: number
  /** File that preserves a suspension across restarts of the agent. Its folder must exist. One file per instance. */
  stateFile?: string
  /** File to which each suspension and resume is appended as a line of JSON; default: `<stateFile>.log`. */
  suspendLog?: string
}

/**
 * An event to report. Secrets are removed from texts and metadata. At most 12 KiB of metadata are sent, since the service
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
  /** Arguments of the call. Reported without secrets, and at most 4 KiB of them. */
  params?: unknown
}

export interface GuardedCall {
  toolName: string
  /** Arguments of the call. All texts in them are compared with the decoys; they are never reported. */
  args?: unknown
  sessionId?: string | undefined
  /** Base of relative paths; default: the working directory of the process. */
  cwd?: string | undefined
}

export interface CheckOptions {
  tool?: string
  /** Base of a relative path; default: the working directory of the process. */
  cwd?: string
  /** The path with symbolic links resolved. */
  realPath?: string
}

export interface GuardOptions {
  sessionId?: string
  /** `throw` a WardlineDenied (default), or `return` the denial as the tool's result for the model. */
  onDeny?: 'throw' | 'return'
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
  /** No contact for `staleAfterMs`. With `open` the last state is kept, with `closed` the agent is suspended. */
  stale: boolean
  /** Whether kills are pushed over a stream. They are also polled for in either case. */
  stream: 'open' | 'closed'
  /** Whether decoys exist for this agent; with `none`, calls are not checked. */
  decoys: 'none' | 'some' | 'unknown'
  queuedEvents: number
  /** Events that were dropped because the queue was full or the service refused them. */
  droppedEvents: number
  /** Calls that could not be checked for decoys completely. */
  uncheckedCalls: number
}

export interface ControlChange {
  /** Undefined if the agent suspended itself because it had no contact (`failMode: 'closed'`). */
  version: number | undefined
  reason: string | undefined
}

export interface MonitorEvents {
  suspend: ControlChange
  resume: ControlChange
  error: MonitorError
}

/** Metrics that the service compares with the baseline of the instance. Other names are accepted too. */
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
 * Monitors one agent. Its methods neither throw nor reject, except a guarded tool that was denied. Faults are passed to
 * listeners of `error`, each kind once until it is over. The monitor does not keep the process alive.
 *
 * Adapters for frameworks call `guard` before a tool call and `reportToolCall` after it, or wrap the tool by `guardTool`
 * with `onDeny: 'return'`, and pass `signal` to the framework.
 */
export interface Monitor {
  readonly instanceId: string
  readonly failMode: FailMode
  /**
   * Aborts on suspension, with a WardlineDenied as its reason. A resume replaces it by a new signal, so read the property
   * for each use.
   */
  readonly signal: AbortSignal
  readonly suspended: boolean
  readonly health: Health

  /** Registers the instance and listens for kills. Resolves after the first contact succeeded or failed, at most after 5 seconds. */
  start(): Promise<void>
  /**
   * For short-lived processes, instead of start(): sends one heartbeat and polls the kill switch once. Resolves with false
   * if the service did not answer.
   */
  refresh(): Promise<boolean>
  /** Sends the queued events, for at most 5 seconds, and closes all connections. A suspension stays in effect. */
  stop(): Promise<void>

  /** Adds a listener. Returns a function that removes it. */
  on<Name extends keyof MonitorEvents>(event: Name, listener: (detail: MonitorEvents[Name]) => unknown): () => void

  /** Queues an event and resolves at once; false if it is invalid or the queue is full. flush() waits until it is stored. */
  report(report: Report): Promise<boolean>
  /** Queues a `tool_call` event, like report(). */
  reportToolCall(call: ToolCall): Promise<boolean>
  /** Sends the queued events; false if some are left after `timeoutMs` (default: 5,000). */
  flush(timeoutMs?: number): Promise<boolean>
  readonly metrics: {
    /** Adds to a sum, which is reported as `session_metrics` every 5 minutes and by stop(). */
    add(name: MetricName, value: number): void
  }

  /** Resolves with a denial if the agent is suspended or the arguments contain a decoy. Waits for start(). */
  guard(call: GuardedCall): Promise<Denial | undefined>
  /** Wraps a tool: guards each call before it runs, and reports it afterwards. */
  guardTool<Fn extends Tool>(
    toolName: string,
    tool: Fn,
    options: GuardOptions & { onDeny: 'return' },
  ): GuardedOrDenial<Fn>
  guardTool<Fn extends Tool>(toolName: string, tool: Fn, options?: GuardOptions): Guarded<Fn>
  /** Wraps each tool as guardTool() does, with its property name as tool name. */
  guardTools<Tools extends Record<string, Tool>>(
    tools: Tools,
    options: GuardOptions & { onDeny: 'return' },
  ): { [Name in keyof Tools]: GuardedOrDenial<Tools[Name]> }
  guardTools<Tools extends Record<string, Tool>>(
    tools: Tools,
    options?: GuardOptions,
  ): { [Name in keyof Tools]: Guarded<Tools[Name]> }

  /** True if the text contains a decoy key; with `failMode: 'closed'` also if it could not be checked. Do not use it then. */
  checkKey(value: string, options?: CheckOptions): Promise<boolean>
  /** Like checkKey(), for a path or a command that contains paths. */
  checkPath(path: string, options?: CheckOptions): Promise<boolean>
}
