// An agent of LangChain, watched by Wardline. A script stands in for the model, so it runs offline.
//
//   export WARDLINE_URL=http://127.0.0.1:4747 WARDLINE_KEY=<a key of scope agent for langchain-example>
//   npm run example -- langchain
//
// Suspend langchain-example, or plant the decoy path /srv/backup/wallet.dat for it, and see what changes.

import { readFile } from 'node:fs/promises'
import { createMonitor } from '@wardline/sdk'
import { guardTools } from '@wardline/sdk/langchain/v1'
import { AIMessage, createAgent, fakeModel, ToolMessage, tool } from 'langchain'
import { z } from 'zod'

const monitor = createMonitor({
  url: process.env.WARDLINE_URL ?? 'http://127.0.0.1:4747',
  key: process.env.WARDLINE_KEY ?? '',
  instanceId: 'langchain-example',
  name: 'LangChain example',
  agentType: 'langchain',
})

const tools = guardTools(monitor, [
  tool(async ({ query }) => `three pages about ${query}`, {
    name: 'web-search',
    description: 'Searches the web.',
    schema: z.object({ query: z.string() }),
  }),
  tool(async ({ path }) => (await readFile(path, 'utf8')).slice(0, 40), {
    name: 'file-read',
    description: 'Reads the beginning of a file.',
    schema: z.object({ path: z.string() }),
  }),
])

// Calls that a model might make; the last one was injected into one of the pages.
const model = fakeModel()
  .respondWithTools([{ name: 'web-search', args: { query: 'tides at Ostend' } }])
  .respondWithTools([{ name: 'file-read', args: { path: import.meta.filename } }])
  .respondWithTools([{ name: 'file-read', args: { path: '/srv/backup/wallet.dat' } }])
  .respond(new AIMessage('done'))

await monitor.start()
const agent = createAgent({ model, tools })
const { messages } = await agent.invoke({ messages: 'Plan a trip.' }, { configurable: { thread_id: 'trip-1' } })
for (const message of messages) {
  if (AIMessage.isInstance(message)) {
    for (const { name, args } of message.tool_calls ?? []) console.log(`${name} ${JSON.stringify(args)}`)
  }
  if (ToolMessage.isInstance(message)) console.log(`  ${message.content}`)
}
console.log(`the model: ${messages.at(-1)?.content}`)
console.log((await monitor.flush()) ? 'reports sent' : 'reports could not be sent')
await monitor.stop()
