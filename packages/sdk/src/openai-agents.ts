import { copyWith, guardedCall, learnPrompts, startCall, textsOf } from './guarded-call.ts'
import type { GuardedCall, Monitor } from './monitor.ts'

export interface OpenAiAgentsOptions {
  sessionId?: string
}

/** A tool of any kind. Its properties show which one. */
export interface AgentTool {
  type: string
  name: string
}

/**
 * Wraps tools with a guard before each call and a report after it, where a guard is possible: tools made by `tool()` or
 * `agent.asTool()`, shellTool() and applyPatchTool(). The model reads a denial as `{ denied: true, reason, retryable:
 * false }`. A tool with an output schema and no `errorFunction` cannot return that, so the run ends with an error that
 * contains it. Hosted tools and computerTool() are returned unchanged; `run(agent, input, { signal: monitor.signal })`
 * stops them with the rest of the run.
 */
export function guardTools<Tools extends readonly AgentTool[]>(
  monitor: Monitor,
  tools: Tools,
  { sessionId }: OpenAiAgentsOptions = {},
): Tools {
  const guarded = tools.map((tool) => {
    const callOf = (args: unknown): GuardedCall => ({ toolName: tool.name, args, sessionId })
    if (tool.type === 'function') return guardFunction(monitor, tool, callOf)
    if (isShell(tool)) return copyWith(tool, { shell: guardShell(monitor, tool.shell, callOf) })
    if (isEditor(tool)) return copyWith(tool, { editor: guardEditor(monitor, tool.editor, callOf) })
    return tool
  })
  return guarded as unknown as Tools
}

interface Emitter {
  on(event: string, listener: (...args: unknown[]) => void): unknown
}

/**
 * Reports the answers of an Agent, or of all agents of a Runner, including those to other agents. Returns it. Use one
 * of the two: an answer that both announce is reported twice. Of a Runner it also remembers what a run begins with, as the
 * words of the user; while a tool of the Runner runs, it does not, because a run within a tool begins with the words of a
 * model. With an Agent, call `monitor.prompt()` for each prompt of the user.
 */
export function reportAnswers<Source extends object>(
  monitor: Monitor,
  source: Source,
  { sessionId }: OpenAiAgentsOptions = {},
): Source {
  const { on } = source as unknown as Emitter
  // The output is the last argument of both.
  on.call(source as unknown as Emitter, 'agent_end', (...args) => {
    void monitor.reportAnswer({ answer: args.at(-1), sessionId })
  })
  if ('run' in source) learnRuns(monitor, source as unknown as Emitter, sessionId)
  return source
}

/** Only the first agent of a run begins with the words of the user: what a handoff passes on may be a model's summary. */
function learnRuns(monitor: Monitor, runner: Emitter, sessionId: string | undefined): void {
  const begun = new WeakSet<object>()
  let running = 0
  runner.on('agent_tool_start', () => {
    running += 1
  })
  runner.on('agent_tool_end', () => {
    running = Math.max(0, running - 1)
  })
  runner.on('agent_start', (context, _agent, input) => {
    if (typeof context !== 'object' || context === null || begun.has(context)) return
    begun.add(context)
    if (running === 0) learnPrompts(monitor, () => promptsIn(input), sessionId)
  })
}

function promptsIn(input: unknown): unknown[] {
  if (!Array.isArray(input)) return [input]
  const items = input as { role?: unknown; content?: unknown }[]
  return items.filter(({ role }) => role === 'user').flatMap(({ content }) => textsOf(content))
}

type CallOf = (args: unknown) => GuardedCall

interface FunctionTool extends AgentTool {
  inputGuardrails?: unknown[]
  outputGuardrails?: unknown[]
}
interface GuardrailData {
  context: object
  toolCall: { callId: string; arguments: string }
  output?: unknown
}
/** Start of the text that tool() returns for a thrown error, unless it has an errorFunction. */
const errorText = 'An error occurred while running the tool'

function guardFunction(monitor: Monitor, tool: FunctionTool, callOf: CallOf): FunctionTool {
  // Keyed by run, so that a call that never ends is released with its run.
  const running = new WeakMap<object, Map<string, ReturnType<typeof startCall>>>()
  const name = 'wardline'
  const allow = { behavior: { type: 'allow' } }
  const before = async ({ context, toolCall }: GuardrailData) => {
    const call = { ...callOf(parsed(toolCall.arguments)), callId: toolCall.callId }
    const denial = await monitor.guard(call)
    if (denial) return { behavior: { type: 'rejectContent', message: JSON.stringify(denial) } }
    const calls = running.get(context) ?? new Map()
    running.set(context, calls.set(toolCall.callId, startCall(monitor, call)))
    return allow
  }
  const after = async ({ context, toolCall, output }: GuardrailData) => {
    const ok = !(typeof output === 'string' && output.startsWith(errorText))
    running.get(context)?.get(toolCall.callId)?.(ok, output)
    running.get(context)?.delete(toolCall.callId)
    return allow
  }
  return copyWith(tool, {
    inputGuardrails: [{ type: 'tool_input', name, run: before }, ...(tool.inputGuardrails ?? [])],
    outputGuardrails: [{ type: 'tool_output', name, run: after }, ...(tool.outputGuardrails ?? [])],
  })
}

/** Parses the arguments, because JSON escapes could disguise a decoy. The tool itself rejects text that is not JSON. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

interface Shell {
  run(action: unknown): Promise<{ output?: { outcome?: { exitCode?: number | null } }[] }>
}
const isShell = (tool: AgentTool): tool is AgentTool & { shell: Shell } => 'shell' in tool && tool.shell !== undefined

const guardShell = (monitor: Monitor, shell: Shell, callOf: CallOf): Shell => ({
  run: (action) =>
    guardedCall(monitor, {
      ...callOf(action),
      run: () => shell.run(action),
      deny: (denial) => {
        const failed = { stdout: '', stderr: JSON.stringify(denial), outcome: { type: 'exit', exitCode: 1 } }
        return { output: [failed] }
      },
      hasFailed: (result) => result?.output?.some(({ outcome }) => outcome?.exitCode !== 0) === true,
    }),
})

type Edit = (operation: unknown, context?: unknown) => Promise<{ status?: string; output?: string } | undefined>
const edits = ['createFile', 'updateFile', 'deleteFile'] as const
type Editor = Record<(typeof edits)[number], Edit>
const isEditor = (tool: AgentTool): tool is AgentTool & { editor: Editor } => 'editor' in tool

function guardEditor(monitor: Monitor, editor: Editor, callOf: CallOf): Editor {
  const guarded = edits.map((name): [string, Edit] => [
    name,
    (operation, context) =>
      guardedCall(monitor, {
        ...callOf(operation),
        run: () => editor[name](operation, context),
        deny: (denial) => ({ status: 'failed', output: JSON.stringify(denial) }),
        hasFailed: (result) => result?.status === 'failed',
      }),
  ])
  return Object.fromEntries(guarded) as Editor
}
