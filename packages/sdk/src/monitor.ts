import type { Denial } from './denied.ts'
import type { MonitorError } from './faults.ts'

/**
 * What the agent does while the service cannot be reached: `open` keeps the last known state, `closed` suspends itself
 * after `staleAfterMs` and denies calls whose decoys cannot be checked.
 */
export type FailMode = 'open' | 'closed'

export type Severity = 'info' | 'warning' | 'critical' | 'breach'

export interface MonitorOptions {
  /** Address of the service, such as https://wardline.example or http://127.0.0.1:4747. A path before /api is kept. */
  url: string
  /** A key of scope `agent`, bound to this instance. */
  key: string
  /** Lower-case letters, digits, _ and -, at most 64. */
  instanceId: string
  /** Shown to people, at most 80 characters; default: the instance id. */
  name?: string
  /** Such as `custom` or `langgraph`, at most 100 characters. */
  agentType?: string
  /** Version of the agent, at most 100 characters. */
  version?: string
  /** Shown in the fleet beside those that operators set: at most 20, each of 1 to 40 lower-case letters, digits, _ . : and -. Default: the last ones stay. */
  tags?: readonly string[]
  /** The `x` of a key in `/.well-known/wardline-keys.json`, or up to 8 separated by commas: what they did not sign is ignored. */
  publicKey?: string | undefined
  /** Default: `open`. */
  failMode?: FailMode
  /** Milliseconds without contact after which the state counts as stale; default: 120,000. */
  staleAfterMs?: number
  /** Milliseconds that the decoy checks of one call may take; default: 1,000. */
  checkTimeoutMs?: number
  /** File that keeps a suspension over restarts of the agent. Its folder must be there. One file for each instance. */
  stateFile?: string
  /** File to which each suspension and resume is written as a line of JSON; default: `<stateFile>.log`. */
  suspendLog?: string
}

/**
 * What is reported. Secrets are removed from texts and metadata, and of metadata at most 12 KiB are sent: the service
 * accepts 16 KiB of JSON.
 */
export interface Report {
  severity: Severity
  /** snake_case, at most 100 characters. */
  eventType: string
  /** For people; cut after 1,000 characters. */
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
  /** Arguments; reported without secrets, and at most 4 KiB of them. */
  params?: unknown
}

export interface GuardedCall {
  toolName: string
  /** Whatever the tool is called with: texts in it are compared with the decoys, and never reported. */
  args?: unknown
  sessionId?: string | undefined
  /** Folder that relative paths start from; default: the working directory of the process. */
  cwd?: string | undefined
}

export interface CheckOptions {
  tool?: string
  /** Folder that a relative path starts from; default: the working directory of the process. */
  cwd?: string
  /** The path with links resolved. */
  realPath?: string
}

export interface GuardOptions {
  sessionId?: string
  /** `throw` a WardlineDenied (default), or `return` the denial for a model to read. */
  onDeny?: 'throw' | 'return'
}

// biome-ignore lint/suspicious/noExplicitAny: any function may be a tool
type Tool = (...args: any[]) => unknown
export type Guarded<Fn extends Tool> = (...args: Parameters<Fn>) => Promise<Awaited<ReturnType<Fn>>>
export type GuardedOrDenial<Fn extends Tool> = (...args: Parameters<Fn>) => Promise<Awaited<ReturnType<Fn>> | Denial>

export interface Health {
  /** Between start() and stop(). */
  running: boolean
  state: 'active' | 'suspended'
  /** Why it is suspended; undefined while active. */
  reason: string | undefined
  failMode: FailMode
  /** The last kill or resume that was applied; undefined before the first contact. */
  controlVersion: number | undefined
  /** When the service last sent or confirmed the state of the kill switch. */
  lastContact: Date | undefined
  /** No contact for `staleAfterMs`: with `open` the state is that of then, with `closed` the agent is suspended. */
  stale: boolean
  /** Whether kills are pushed; they are polled for in any case. */
  stream: 'open' | 'closed'
  /** Whether decoys could match; while there are `none`, calls are not checked. */
  decoys: 'none' | 'some' | 'unknown'
  queuedEvents: number
  /** Events that were never stored, because the queue was full or the service refused them. */
  droppedEvents: number
  /** Calls whose decoys could not be checked, in whole or in part. */
  uncheckedCalls: number
}

export interface ControlChange {
  /** Undefined for a suspension that the agent gave itself because it had no contact (`failMode: 'closed'`). */
  version: number | undefined
  reason: string | undefined
}

export interface MonitorEvents {
  suspend: ControlChange
  resume: ControlChange
  error: MonitorError
}

/** Metrics that the service compares with what is usual for the instance; any other name is welcome. */
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
 * Watches one agent. Nothing here throws or rejects, except a guarded tool that was denied: listeners of `error` get
 * each kind of fault once, until it is over. Nothing keeps the process alive.
 *
 * Adapters for frameworks stand on `guard` before a call and `reportToolCall` after it, or on `guardTool` with `onDeny:
 * 'return'`, and hand `signal` to the framework.
 */
export interface Monitor {
  readonly instanceId: string
  readonly failMode: FailMode
  /**
   * Aborts on suspension with a WardlineDenied as its reason. After a resume this is another, fresh signal: read it
   * again.
   */
  readonly signal: AbortSignal
  readonly suspended: boolean
  readonly health: Health

  /** Registers the instance and listens for kills. Resolves after the first contact, or when that failed, after 5 seconds at most. */
  start(): Promise<void>
  /**
   * For short-lived processes instead of start(): one heartbeat and one poll of the kill switch; false when the service
   * did not answer.
   */
  refresh(): Promise<boolean>
  /** Sends what is queued, for 5 seconds at most, and ends all connections. A suspension stays. */
  stop(): Promise<void>

  /** Returns a function that takes the listener off again. */
  on<Name extends keyof MonitorEvents>(event: Name, listener: (detail: MonitorEvents[Name]) => unknown): () => void

  /** Queues an event and resolves at once: false when it is unfit or there is no room. Use flush() to wait until it is stored. */
  report(report: Report): Promise<boolean>
  /** Queues a `tool_call` event, as report() does. */
  reportToolCall(call: ToolCall): Promise<boolean>
  /** Sends what is queued; false when something is left after `timeoutMs` (default: 5,000). */
  flush(timeoutMs?: number): Promise<boolean>
  readonly metrics: {
    /** Adds to a sum that is reported as `session_metrics` every 5 minutes and by stop(). */
    add(name: MetricName, value: number): void
  }

  /** Whether this call is denied: because of a suspension, or because of a decoy in its arguments. Waits for start(). */
  guard(call: GuardedCall): Promise<Denial | undefined>
  /** The tool with a guard before each call and a report after it. */
  guardTool<Fn extends Tool>(
    toolName: string,
    tool: Fn,
    options: GuardOptions & { onDeny: 'return' },
  ): GuardedOrDenial<Fn>
  guardTool<Fn extends Tool>(toolName: string, tool: Fn, options?: GuardOptions): Guarded<Fn>
  /** The same for each tool, by its name. */
  guardTools<Tools extends Record<string, Tool>>(
    tools: Tools,
    options: GuardOptions & { onDeny: 'return' },
  ): { [Name in keyof Tools]: GuardedOrDenial<Tools[Name]> }
  guardTools<Tools extends Record<string, Tool>>(
    tools: Tools,
    options?: GuardOptions,
  ): { [Name in keyof Tools]: Guarded<Tools[Name]> }

  /** True when the text holds a decoy key, and with `failMode: 'closed'` also when that could not be checked: do not use it. */
  checkKey(value: string, options?: CheckOptions): Promise<boolean>
  /** The same for a path, or a command with paths in it. */
  checkPath(path: string, options?: CheckOptions): Promise<boolean>
}
