import { copyWith, guardedCall, startCall } from './guarded-call.ts'
import type { GuardedCall, Monitor } from './monitor.ts'

export interface OpenAiAgentsOptions {
  sessionId?: string
}

/** A tool of any kind; which one it is shows in what it has. */
export interface AgentTool {
  type: string
  name: string
}

/**
 * The tools with a guard before each call and a report after it, where a guard can stand: in tools made by `tool()` or
 * `agent.asTool()`, in shellTool() and in applyPatchTool(). What the model reads of a denial is
 * `{ denied: true, reason, retryable: false }`; where a tool has an output schema and no `errorFunction`, which leaves
 * no room for that, the run ends with an error that says so. Tools that are hosted, and computerTool(), stay as they
 * are: `run(agent, input, { signal: monitor.signal })` stops those with everything else.
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
/** What tool() makes of whatever is thrown, unless it is given an errorFunction. */
const errorText = 'An error occurred while running the tool'

function guardFunction(monitor: Monitor, tool: FunctionTool, callOf: CallOf): FunctionTool {
  // By run, so that a call that never ends is forgotten with its run.
  const running = new WeakMap<object, Map<string, (ok: boolean) => void>>()
  const name = 'wardline'
  const allow = { behavior: { type: 'allow' } }
  const before = async ({ context, toolCall }: GuardrailData) => {
    const call = callOf(parsed(toolCall.arguments))
    const denial = await monitor.guard(call)
    if (denial) return { behavior: { type: 'rejectContent', message: JSON.stringify(denial) } }
    const calls = running.get(context) ?? new Map()
    running.set(context, calls.set(toolCall.callId, startCall(monitor, call)))
    return allow
  }
  const after = async ({ context, toolCall, output }: GuardrailData) => {
    running.get(context)?.get(toolCall.callId)?.(!(typeof output === 'string' && output.startsWith(errorText)))
    running.get(context)?.delete(toolCall.callId)
    return allow
  }
  return copyWith(tool, {
    inputGuardrails: [{ type: 'tool_input', name, run: before }, ...(tool.inputGuardrails ?? [])],
    outputGuardrails: [{ type: 'tool_output', name, run: after }, ...(tool.outputGuardrails ?? [])],
  })
}

/** As escaped text a decoy could pass for something else. The tool refuses what is not JSON. */
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
