import { contentOf, guardedCall, signalOf } from './guarded-call.ts'
import type { Monitor } from './monitor.ts'

interface CallRequest {
  params: { name: string; arguments?: unknown }
}
interface CallContext {
  sessionId?: string | undefined
  /** In version 1; version 2 has it in `mcpReq`. */
  signal?: unknown
  mcpReq?: { signal?: unknown }
}
interface CallResult {
  content?: unknown
  isError?: boolean
}
type CallHandler = (request: CallRequest, context: CallContext) => CallResult | Promise<CallResult>

/** An MCP `Server` of the package `@modelcontextprotocol/server` 2 or `@modelcontextprotocol/sdk` 1. */
export interface McpProtocol {
  // biome-ignore lint/suspicious/noExplicitAny: its overloads differ from version to version
  setRequestHandler(...args: any[]): void
  assertCanSetRequestHandler(method: string): void
}

/**
 * Guards and reports all calls of tools registered after this with an McpServer or a Server. Returns the server. A
 * denied call has a result with `isError` and the text `{ "denied": true, "reason": …, "retryable": false }`. Throws
 * TypeError when tools are already registered, because their calls would bypass the guard.
 */
export function guardServer<Server extends McpProtocol | { server: McpProtocol }>(
  monitor: Monitor,
  server: Server,
): Server {
  const protocol: McpProtocol = 'server' in server ? server.server : server
  try {
    protocol.assertCanSetRequestHandler('tools/call')
  } catch (cause) {
    throw new TypeError('guardServer: guard the server before its tools are registered', { cause })
  }
  const register = protocol.setRequestHandler.bind(protocol)
  protocol.setRequestHandler = (method: unknown, ...rest: unknown[]) => {
    if (nameOf(method) !== 'tools/call') return register(method, ...rest)
    register(method, ...rest.slice(0, -1), guardHandler(monitor, rest.at(-1) as CallHandler))
  }
  return server
}

/** Version 1 identifies a method by the schema of its requests. */
const nameOf = (method: unknown): unknown =>
  typeof method === 'string'
    ? method
    : (method as { shape?: { method?: { value?: unknown } } } | undefined)?.shape?.method?.value

const guardHandler =
  (monitor: Monitor, handler: CallHandler): CallHandler =>
  (request, context) =>
    guardedCall<CallResult>(monitor, {
      toolName: request.params.name,
      args: request.params.arguments,
      sessionId: context.sessionId,
      // A client that has given up retries: the first call must not run as well.
      signal: signalOf(context.signal) ?? signalOf(context.mcpReq?.signal),
      run: () => handler(request, context),
      deny: (denial) => ({ content: [{ type: 'text', text: JSON.stringify(denial) }], isError: true }),
      hasFailed: (result) => result?.isError === true,
      contentOf,
    })
