import { Client, InMemoryTransport } from '@modelcontextprotocol/client'
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js'
import { InMemoryTransport as InMemoryTransportV1 } from '@modelcontextprotocol/sdk/inMemory.js'
import { McpServer as McpServerV1 } from '@modelcontextprotocol/sdk/server/mcp.js'
import { McpServer } from '@modelcontextprotocol/server'
import { generateText, isStepCount, tool } from 'ai-v7'
import { MockLanguageModelV4 } from 'ai-v7/test'
import { tool as chainTool, createAgent, fakeModel } from 'langchain'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { z } from 'zod'
import { guardTools } from './ai-sdk-v7.ts'
import { guardMiddleware } from './langchain-v1.ts'
import { guardServer } from './mcp.ts'
import type { Monitor } from './monitor.ts'
import { streamOpen, TestFleet } from './testing/service.ts'

// A caller that has given up retries: once a person approves, the call that waited must not run beside the retry.

let fleet: TestFleet
let monitor: Monitor
let ran: string[]
beforeEach(async () => {
  fleet = await TestFleet.open()
  await fleet.addPolicy({ title: 'Read', rules: [{ title: 'Ask', decision: 'ask', match: { tool: 'read' } }] })
  monitor = fleet.monitor().monitor
  ran = []
  await monitor.start()
  await streamOpen(monitor)
})
afterEach(() => fleet[Symbol.asyncDispose]())

const inputSchema = z.object({ path: z.string() })
const args = { path: 'a.txt' }
const execute = async ({ path }: { path: string }) => {
  ran.push(path)
  return 'text'
}
const body = async (given: { path: string }) => ({
  content: [{ type: 'text' as const, text: await execute(given) }],
})

async function callMcp(signal: AbortSignal) {
  const server = guardServer(monitor, new McpServer({ name: 'files', version: '1.0.0' }))
  server.registerTool('read', { inputSchema }, body)
  const [near, far] = InMemoryTransport.createLinkedPair()
  const client = new Client({ name: 'files', version: '1.0.0' })
  await Promise.all([server.connect(far), client.connect(near)])
  await client.callTool({ name: 'read', arguments: args }, { signal })
}

async function callMcpV1(signal: AbortSignal) {
  const server = guardServer(monitor, new McpServerV1({ name: 'files', version: '1.0.0' }))
  server.registerTool('read', { inputSchema }, body)
  const [near, far] = InMemoryTransportV1.createLinkedPair()
  const client = new ClientV1({ name: 'files', version: '1.0.0' })
  await Promise.all([server.connect(far), client.connect(near)])
  await client.callTool({ name: 'read', arguments: args }, undefined, { signal })
}

async function callAi(signal: AbortSignal) {
  const tokens = { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 }
  const usage = { inputTokens: tokens, outputTokens: { total: 1, text: 1, reasoning: 0 } }
  const call = { type: 'tool-call' as const, toolCallId: '1', toolName: 'read', input: JSON.stringify(args) }
  const answer = {
    content: [call],
    finishReason: { unified: 'tool-calls' as const, raw: undefined },
    usage,
    warnings: [],
  }
  const tools = guardTools(monitor, { read: tool({ inputSchema, execute }) })
  const model = new MockLanguageModelV4({ doGenerate: [answer] })
  await generateText({ model, tools, prompt: 'read it', stopWhen: isStepCount(1), abortSignal: signal })
}

async function callChain(signal: AbortSignal) {
  const read = chainTool(execute, { name: 'read', description: 'reads', schema: inputSchema })
  const model = fakeModel().respondWithTools([{ id: '1', name: 'read', args }])
  const agent = createAgent({ model, tools: [read], middleware: [guardMiddleware(monitor)] })
  await agent.invoke({ messages: 'read it' }, { signal })
}

test.each([
  ['a client of MCP 2', callMcp],
  ['a client of MCP 1', callMcpV1],
  ['a run of the AI SDK', callAi],
  ['a run of LangChain', callChain],
])('%s that is aborted while a person is asked runs nothing', async (_, makeCall) => {
  const gone = new AbortController()
  const call = makeCall(gone.signal).catch(() => 'aborted')
  const { id } = await fleet.pendingApproval()
  gone.abort()
  await call
  await fleet.decide(id, 'approve')
  // Only one call can take the approval: this one.
  expect(await monitor.guard({ toolName: 'read', args, onAsk: 'deny' })).toBeUndefined()
  expect(ran).toEqual([])
})
