import { McpServer } from '@modelcontextprotocol/server'
import { serveStdio } from '@modelcontextprotocol/server/stdio'
import { z } from 'zod'

// MCP server for tests of the proxy, started as a separate process.

const text = (said: string) => ({ content: [{ type: 'text' as const, text: said }] })
let calls = 0

serveStdio(() => {
  const server = new McpServer({ name: 'test', version: '1.0.0' }, { capabilities: { tools: {} } })
  const described = {
    description: process.env.ECHO_DESCRIPTION ?? 'Repeats a text',
    inputSchema: z.object({ said: z.string() }),
  }
  server.registerTool('echo', described, async ({ said }) => {
    calls += 1
    return text(said)
  })
  server.registerTool('never', { inputSchema: z.object({}) }, () => new Promise<never>(() => {}))
  server.registerTool('fail', { inputSchema: z.object({}) }, async () => ({ ...text('no'), isError: true }))
  server.registerTool('calls', { inputSchema: z.object({}) }, async () => text(String(calls)))
  server.registerTool('crash', { inputSchema: z.object({}) }, async () => {
    console.error('about to crash')
    process.exit(7)
  })
  return server
})
