import { contentOf, guardedCall, learnPrompts, signalOf, textsOf } from './guarded-call.ts'
import type { Monitor } from './monitor.ts'

interface ToolCallRequest {
  toolCall: { name: string; args: unknown; id?: string | undefined }
  tool?: object | undefined
  runtime: object
}

/**
 * Returns middleware for `createAgent()` that guards and reports the calls of all the agent's tools, including those of
 * other middleware, reports the agent's answers, and remembers what its user asks. Put it last, so that nothing changes a
 * call after it was allowed. The model reads a denial as `{ denied: true, reason, retryable: false }`.
 *
 * With any middleware that wraps tool calls, LangChain no longer returns a tool's error to the model but ends the run;
 * toolErrorMiddleware() changes that.
 */
export function guardMiddleware(monitor: Monitor) {
  return {
    name: 'wardline',
    beforeAgent(state: { messages: readonly unknown[] }, runtime: object): undefined {
      learnPrompts(monitor, () => promptsIn(state.messages), threadOf(runtime))
    },
    wrapToolCall<Request extends ToolCallRequest, Result>(
      request: Request,
      handler: (request: Request) => Result | Promise<Result>,
    ): Promise<Result> {
      const { name: toolName, args, id: callId } = request.toolCall
      return guardedCall<Result>(monitor, {
        toolName,
        args,
        callId,
        sessionId: threadOf(request.runtime),
        signal: signalOf((request.runtime as { signal?: unknown }).signal),
        run: () => handler(request),
        // LangChain builds the message from the output of this tool, which replaces the real one.
        deny: (denial) => handler({ ...request, tool: { name: toolName, invoke: async () => JSON.stringify(denial) } }),
        hasFailed,
        contentOf,
      })
    },
    afterAgent(state: { messages: readonly unknown[] }, runtime: object): undefined {
      const last = state.messages.at(-1)
      // An agent that never called its model ends with a message of its user.
      if ((Object(last) as { type?: unknown }).type !== 'ai') return
      void monitor.reportAnswer({ answer: contentOf(last), sessionId: threadOf(runtime) })
    },
  }
}

/**
 * The texts of the user that began this run: earlier messages may be gone, replaced by the summary of a model, which
 * LangChain marks by its source.
 */
function promptsIn(messages: readonly unknown[]): unknown[] {
  const isOwn = (message: unknown) => {
    const { type, additional_kwargs: more } = Object(message) as { type?: unknown; additional_kwargs?: unknown }
    return type === 'human' && (Object(more) as { lc_source?: unknown }).lc_source === undefined
  }
  const start = messages.findLastIndex((message) => !isOwn(message)) + 1
  return messages.slice(start).flatMap((message) => textsOf((message as { content?: unknown }).content))
}

interface Invokable {
  name: string
  invoke(input: unknown, config?: unknown): unknown
}

/**
 * Wraps tools with a guard before each call and a report after it, for LangGraph's ToolNode, which runs no middleware.
 * They also work with `createAgent()`, in place of the middleware.
 */
export function guardTools<Tools extends readonly object[]>(monitor: Monitor, tools: Tools): Tools {
  return tools.map((tool) => ('invoke' in tool ? guardTool(monitor, tool as Invokable) : tool)) as unknown as Tools
}

function guardTool(monitor: Monitor, tool: Invokable): Invokable {
  const invoke = (input: unknown, config?: unknown) =>
    guardedCall<unknown>(monitor, {
      toolName: tool.name,
      ...(isToolCall(input) ? { args: input.args, callId: input.id } : { args: input }),
      sessionId: threadOf(config),
      signal: signalOf((Object(config) as { signal?: unknown }).signal),
      run: () => tool.invoke(input, config),
      deny: (denial) => JSON.stringify(denial),
      hasFailed,
      contentOf,
    })
  return new Proxy(tool, { get: (target, name) => (name === 'invoke' ? invoke : Reflect.get(target, name, target)) })
}

const isToolCall = (input: unknown): input is { args: unknown; id?: string } =>
  (input as { type?: unknown } | null | undefined)?.type === 'tool_call'

const hasFailed = (result: unknown): boolean => (result as { status?: unknown } | null | undefined)?.status === 'error'

/** Returns the id under which LangGraph stores the conversation. */
function threadOf(config: unknown): string | undefined {
  const { thread_id: thread } = Object((Object(config) as { configurable?: unknown }).configurable) as {
    thread_id?: unknown
  }
  return typeof thread === 'string' ? thread : undefined
}
