import { signalOf } from './guarded-call.ts'
import type { Monitor } from './monitor.ts'

/** The fields of hook inputs that this module needs. */
export interface HookInput {
  session_id: string
  cwd: string
  tool_name?: string
  tool_input?: unknown
  tool_use_id?: string
  tool_response?: unknown
  duration_ms?: number
  last_assistant_message?: string
  prompt?: string
  source?: string
  agent_id?: string
}

export interface HookAnswer {
  continue?: false
  stopReason?: string
  hookSpecificOutput?: {
    hookEventName: 'PreToolUse'
    permissionDecision: 'deny'
    permissionDecisionReason: string
  }
}

export interface HookMatcher {
  hooks: ((input: HookInput, toolUseId?: string, options?: { signal?: AbortSignal }) => Promise<HookAnswer>)[]
  onFailure?: 'block'
  /** Seconds. */
  timeout?: number
}

export type GuardHooks = Record<
  'UserPromptSubmit' | 'PreToolUse' | 'PostToolUse' | 'PostToolUseFailure' | 'Stop' | 'SubagentStop',
  HookMatcher[]
>

/** A hook that is still waiting at its timeout lets the call run. A policy may wait a day for a person. */
const maxWaitSeconds = 86_400 + 3_600

/**
 * Returns `hooks` for `query()` that deny tool calls before they run, including those of subagents and MCP servers, and
 * report those that ran, and the answers of the agent and its subagents, and remember what its user asks. Pass your own
 * hooks as `own` to keep both. The model reads a denial as `{ denied: true, reason, retryable: false }`; a suspended agent
 * is stopped as well. With `failMode: 'closed'`, a hook that fails
 * blocks the call, which requires a Claude Code version that supports `onFailure`.
 */
export function guardHooks<Own extends Partial<Record<keyof GuardHooks, unknown[]>> = object>(
  monitor: Monitor,
  own?: Own,
): Own & GuardHooks {
  const onFailure = monitor.failMode === 'closed' ? { onFailure: 'block' as const } : {}
  const hooks = {
    UserPromptSubmit: { hooks: [(input: HookInput) => remember(monitor, input)] },
    PreToolUse: { hooks: [decide.bind(undefined, monitor)], timeout: maxWaitSeconds, ...onFailure },
    PostToolUse: { hooks: [(input: HookInput) => report(monitor, input, true)] },
    PostToolUseFailure: { hooks: [(input: HookInput) => report(monitor, input, false)] },
    Stop: { hooks: [(input: HookInput) => reportAnswer(monitor, input)] },
    SubagentStop: { hooks: [(input: HookInput) => reportAnswer(monitor, input)] },
  }
  const merged = Object.entries(hooks).map(([event, matcher]) => [
    event,
    [matcher, ...(own?.[event as keyof GuardHooks] ?? [])],
  ])
  return { ...own, ...Object.fromEntries(merged) }
}

/** Remembers a prompt. Those of schedules and other agents, and within subagents, are written by models. */
async function remember(monitor: Monitor, input: HookInput): Promise<HookAnswer> {
  const { prompt, source = 'user', agent_id: agentId, session_id: sessionId } = input
  if (prompt !== undefined && agentId === undefined && (source === 'user' || source === 'sdk')) {
    monitor.prompt(prompt, { sessionId })
  }
  return {}
}

async function decide(
  monitor: Monitor,
  input: HookInput,
  _toolUseId?: string,
  options?: { signal?: AbortSignal },
): Promise<HookAnswer> {
  const { tool_name: toolName = 'unknown', tool_input: args, tool_use_id: callId, session_id: sessionId, cwd } = input
  const scope = input.agent_id === undefined ? 'main' : 'subagent'
  const denial = await monitor.guard({
    toolName,
    args,
    sessionId,
    callId,
    cwd,
    scope,
    signal: signalOf(options?.signal),
  })
  if (denial === undefined) return {}
  const stop = denial.code === 'suspended' ? { continue: false as const, stopReason: denial.reason } : {}
  const permissionDecisionReason = JSON.stringify(denial)
  return {
    ...stop,
    hookSpecificOutput: { hookEventName: 'PreToolUse', permissionDecision: 'deny', permissionDecisionReason },
  }
}

async function report(monitor: Monitor, input: HookInput, ok: boolean): Promise<HookAnswer> {
  const { tool_name: toolName = 'unknown', tool_input: params, tool_response: result } = input
  const { session_id: sessionId, duration_ms: durationMs, tool_use_id: callId } = input
  await monitor.reportToolCall({ toolName, durationMs, ok, sessionId, callId, params, result })
  return {}
}

async function reportAnswer(monitor: Monitor, { last_assistant_message: answer, session_id }: HookInput) {
  await monitor.reportAnswer({ answer, sessionId: session_id })
  return {}
}
