import { type AiSdkOptions, type AiTool, type AiTools, guardExecute, learnMessages } from './ai-sdk-tools.ts'
import { copyWith } from './guarded-call.ts'
import type { Monitor } from './monitor.ts'

export { type AiSdkOptions, type AiTools, answerReporter } from './ai-sdk-tools.ts'

/**
 * Wraps tools with a guard before each call and a report after it. The output of a denied call is `{ denied: true,
 * reason, retryable: false }`. Version 6 cannot deny a call that your program runs elsewhere, because the tool has no
 * `execute`; a denied one is returned as needing approval. Tools that the provider runs are not guarded; `abortSignal:
 * monitor.signal` stops them with the rest of the run.
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
    learnMessages(monitor, call, sessionId)
    const { toolCallId: callId } = Object(call) as { toolCallId?: string }
    if (await monitor.guard({ toolName, args: input, sessionId, callId })) return true
    const isAsked = typeof own === 'function' ? Boolean(await own.call(tool, input, call)) : own === true
    if (!isAsked) void monitor.reportToolCall({ toolName, params: input, sessionId, callId })
    return isAsked
  }
  return copyWith(tool, { needsApproval })
}
