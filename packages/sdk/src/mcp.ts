import { ToolListing } from './agent/tool-listing.ts'
import { ToolReport } from './agent/tool-report.ts'
import type { AgentMonitor } from './agent-monitor.ts'
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
type ListHandler = (request: { params?: { cursor?: unknown } }, context: unknown) => unknown
type CallHandler = (request: CallRequest, context: CallContext) => CallResult | Promise<CallResult>

/** An MCP `Server` of the package `@modelcontextprotocol/server` 2 or `@modelcontextprotocol/sdk` 1. */
export interface McpProtocol {
  // biome-ignore lint/suspicious/noExplicitAny: its overloads differ from version to version
  setRequestHandler(...args: any[]): void
  assertCanSetRequestHandler(method: string): void
}

/**
 * Guards and reports all calls of tools registered after this with an McpServer or a Server, and reports these tools.
 * Returns the server. A
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
    const name = nameOf(method)
    let handler = rest.pop()
    if (name === 'tools/call') handler = guardHandler(monitor, handler as CallHandler)
    if (name === 'tools/list') handler = listHandler(monitor, protocol, handler as ListHandler)
    register(method, ...rest, handler)
  }
  return server
}

/** Version 1 identifies a method by the schema of its requests. */
const nameOf = (method: unknown): unknown =>
  typeof method === 'string'
    ? method
    : (method as { shape?: { method?: { value?: unknown } } } | undefined)?.shape?.method?.value

/** Reports what tools the server lists once a client has read them all. */
function listHandler(monitor: Monitor, protocol: McpProtocol, handler: ListHandler): ListHandler {
  // Of one that another program made, nothing is known.
  const access = (monitor as Partial<AgentMonitor>).access
  if (!access) return handler
  // Servers of a program differ by name. Those for one request each are the same.
  const name = String(Object(Object(protocol)._serverInfo).name)
  const report = new ToolReport(access.settings, { command: process.argv[1] ?? 'server', args: [name] }, access)
  const listing = new ToolListing()
  return async (request, context) => {
    const result = await handler(request, context)
    const listed = listing.add(result, request.params?.cursor === undefined)
    if (listed) report.take(listed)
    return result
  }
}

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
