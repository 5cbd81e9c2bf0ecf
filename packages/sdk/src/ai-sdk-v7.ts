import { type AiSdkOptions, type AiTool, type AiTools, guardExecute, isGuarded } from './ai-sdk-tools.ts'
import type { Monitor } from './monitor.ts'

export type { AiSdkOptions, AiTools } from './ai-sdk-tools.ts'

/**
 * The tools with a guard before each call and a report after it. The output of a denied call is
 * `{ denied: true, reason, retryable: false }`. A tool without `execute` stays as it is: see guardApproval(). Tools that
 * the provider runs are not guarded; `abortSignal: monitor.signal` stops those with everything else.
 */
export function guardTools<Tools extends AiTools>(monitor: Monitor, tools: Tools, options: AiSdkOptions = {}): Tools {
  const guarded = Object.entries(tools).map(([toolName, tool]) => [
    toolName,
    typeof tool.execute === 'function' ? guardExecute(monitor, toolName, tool, options) : tool,
  ])
  return Object.fromEntries(guarded) as Tools
}

/** The call that a rule for `toolApproval` decides about. */
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
 * For `toolApproval`: denies calls of tools that guardTools() cannot wrap, because your program runs them elsewhere (and
 * has to heed the denial), or that it did not wrap; the others of these are reported. Then your own rule is asked, or
 * without one the tool's `needsApproval`.
 */
export function guardApproval(
  monitor: Monitor,
  own: ApprovalRule = ruleOfTool,
  { sessionId }: AiSdkOptions = {},
): (request: ApprovalRequest) => Promise<ApprovalStatus> {
  return async (request) => {
    const { toolName, input, providerExecuted } = request.toolCall
    // Tools of the provider have already run before the guard is asked.
    if (providerExecuted === true || isGuarded(toolOf(request))) return own(request)
    const denial = await monitor.guard({ toolName, args: input, sessionId })
    if (denial) return { type: 'denied', reason: denial.reason }
    const status = await own(request)
    const type = typeof status === 'object' ? status.type : status
    if (type !== 'denied' && type !== 'user-approval') {
      void monitor.reportToolCall({ toolName, params: input, sessionId })
    }
    return status
  }
}

function toolOf({ tools = {}, toolCall }: ApprovalRequest): AiTool | undefined {
  return Object.hasOwn(tools, toolCall.toolName) ? tools[toolCall.toolName] : undefined
}

/** Approval by the rule of the single tool, which the AI SDK applies where there is no rule for all tools. */
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
