// A server of MCP whose tools are watched by Wardline, and a client that stands in for an agent, in one process.
//
//   export WARDLINE_URL=http://127.0.0.1:4747 WARDLINE_KEY=<a key of scope agent for mcp-example>
//   npm run example -- mcp
//
// Suspend mcp-example, or plant the decoy path /srv/backup/wallet.dat for it, and see what changes.

import { readFile } from 'node:fs/promises'
import { Client, InMemoryTransport } from '@modelcontextprotocol/client'
import { McpServer } from '@modelcontextprotocol/server'
import { createMonitor } from '@wardline/sdk'
import { guardServer } from '@wardline/sdk/mcp'
import { z } from 'zod'

const monitor = createMonitor({
  url: process.env.WARDLINE_URL ?? 'http://127.0.0.1:4747',
  key: process.env.WARDLINE_KEY ?? '',
  instanceId: 'mcp-example',
  name: 'MCP example',
  agentType: 'mcp',
})

const server = guardServer(monitor, new McpServer({ name: 'travel', version: '1.0.0' }))
const text = (text: string) => ({ content: [{ type: 'text' as const, text }] })
server.registerTool(
  'web-search',
  { description: 'Searches the web.', inputSchema: z.object({ query: z.string() }) },
  async ({ query }) => text(`three pages about ${query}`),
)
server.registerTool(
  'file-read',
  { description: 'Reads the beginning of a file.', inputSchema: z.object({ path: z.string() }) },
  async ({ path }) => text((await readFile(path, 'utf8')).slice(0, 40)),
)

// Calls that a model might make; the last one was injected into one of the pages.
const plan = [
  { name: 'web-search', arguments: { query: 'tides at Ostend' } },
  { name: 'file-read', arguments: { path: import.meta.filename } },
  { name: 'file-read', arguments: { path: '/srv/backup/wallet.dat' } },
]

await monitor.start()
const client = new Client({ name: 'agent', version: '1.0.0' })
const [near, far] = InMemoryTransport.createLinkedPair()
await Promise.all([server.connect(far), client.connect(near)])
for (const call of plan) {
  const { content } = await client.callTool(call)
  console.log(`${call.name} ${JSON.stringify(call.arguments)}`)
  for (const part of content) if (part.type === 'text') console.log(`  ${part.text}`)
}
await client.close()
console.log((await monitor.flush()) ? 'reports sent' : 'reports could not be sent')
await monitor.stop()
