import { type AiSdkOptions, type AiTool, type AiTools, guardExecute } from './ai-sdk-tools.ts'
import { copyWith } from './guarded-call.ts'
import type { Monitor } from './monitor.ts'

export type { AiSdkOptions, AiTools } from './ai-sdk-tools.ts'

/**
 * Wraps tools: guards each call before it runs, and reports it afterwards. The output of a denied call is `{ denied: true,
 * reason, retryable: false }`. A tool without `execute` runs in your program and cannot be denied in version 6: its call
 * is returned as one that needs approval. Tools run by the provider are not guarded; `abortSignal: monitor.signal` stops
 * them with everything else.
 */
export function guardTools<Tools extends AiTools>(monitor: Monitor, tools: Tools, options: AiSdkOptions = {}): Tools {
  const guarded = Object.entries(tools).map(([toolName, tool]) => {
    if (typeof tool.execute === 'function') return [toolName, guardExecute(monitor, toolName, tool, options)]
    return [toolName, tool.type === 'provider' ? tool : guardTool(monitor, toolName, tool, options)]
  })
  return Object.fromEntries(guarded) as Tools
}

function guardTool(monitor: Monitor, toolName: string, tool: AiTool, { sessionId }: AiSdkOptions): AiTool {
  const own = tool.needsApproval
  const needsApproval = async (input: unknown, call: unknown): Promise<boolean> => {
    if (await monitor.guard({ toolName, args: input, sessionId })) return true
    const isAsked = typeof own === 'function' ? Boolean(await own.call(tool, input, call)) : own === true
    if (!isAsked) void monitor.reportToolCall({ toolName, params: input, sessionId })
    return isAsked
  }
  return copyWith(tool, { needsApproval })
}
