import { type AiSdkOptions, type AiTool, type AiTools, guardExecute, isGuarded, learnMessages } from './ai-sdk-tools.ts'
import type { Monitor } from './monitor.ts'

export { type AiSdkOptions, type AiTools, answerReporter } from './ai-sdk-tools.ts'

/**
 * Wraps tools with a guard before each call and a report after it. The output of a denied call is `{ denied: true,
 * reason, retryable: false }`. Tools without `execute` are returned unchanged: see guardApproval(). Tools that the
 * provider runs are not guarded; `abortSignal: monitor.signal` stops them with the rest of the run.
 */
export function guardTools<Tools extends AiTools>(monitor: Monitor, tools: Tools, options: AiSdkOptions = {}): Tools {
  const guarded = Object.entries(tools).map(([toolName, tool]) => [
    toolName,
    typeof tool.execute === 'function' ? guardExecute(monitor, toolName, tool, options) : tool,
  ])
  return Object.fromEntries(guarded) as Tools
}

/** Input of a rule for `toolApproval`. */
export interface ApprovalRequest {
  toolCall: { toolName: string; toolCallId: string; input: unknown; providerExecuted?: boolean | undefined }
  tools: AiTools | undefined
  toolsContext: unknown
  runtimeContext: unknown
  messages: unknown
}

type Answer<Type, Reason> = { type: Type; reason?: Reason }
export type ApprovalStatus =
  | undefined
  | 'not-applicable'
  | 'approved'
  | 'denied'
  | 'user-approval'
  | Answer<'not-applicable', never>
  | Answer<'approved' | 'denied' | 'user-approval', string>
export type ApprovalRule = (request: ApprovalRequest) => ApprovalStatus | PromiseLike<ApprovalStatus>

/**
 * Returns a rule for `toolApproval` that guards and reports calls of tools not wrapped by guardTools(). These include
 * tools that your program runs elsewhere, where it must respect the denial. An allowed call is then decided by your own
 * rule, or by default by the tool's `needsApproval`.
 */
export function guardApproval(
  monitor: Monitor,
  own: ApprovalRule = ruleOfTool,
  { sessionId }: AiSdkOptions = {},
): (request: ApprovalRequest) => Promise<ApprovalStatus> {
  return async (request) => {
    const { toolName, toolCallId: callId, input, providerExecuted } = request.toolCall
    // Provider tools have already run by now, and wrapped tools are guarded by `execute`.
    if (providerExecuted === true || isGuarded(toolOf(request))) return own(request)
    learnMessages(monitor, request, sessionId)
    const denial = await monitor.guard({ toolName, args: input, sessionId, callId })
    if (denial) return { type: 'denied', reason: denial.reason }
    const status = await own(request)
    const type = typeof status === 'object' ? status.type : status
    if (type !== 'denied' && type !== 'user-approval') {
      void monitor.reportToolCall({ toolName, params: input, sessionId, callId })
    }
    return status
  }
}

function toolOf({ tools = {}, toolCall }: ApprovalRequest): AiTool | undefined {
  return Object.hasOwn(tools, toolCall.toolName) ? tools[toolCall.toolName] : undefined
}

/** Applies the tool's own rule, as the AI SDK does without a rule for all tools. */
async function ruleOfTool(request: ApprovalRequest): Promise<ApprovalStatus> {
  const { toolCall, toolsContext, messages } = request
  const tool = toolOf(request)
  const context = (Object(toolsContext) as Record<string, unknown>)[toolCall.toolName]
  const isAsked =
    typeof tool?.needsApproval === 'function'
      ? await tool.needsApproval(toolCall.input, { toolCallId: toolCall.toolCallId, messages, context })
      : tool?.needsApproval
  return isAsked ? 'user-approval' : undefined
}
