// An agent of the OpenAI Agents SDK, watched by Wardline. A script stands in for the model, so it runs offline.
//
//   export WARDLINE_URL=http://127.0.0.1:4747 WARDLINE_KEY=<a key of scope agent for openai-agents-example>
//   npm run example -- openai-agents
//
// Suspend openai-agents-example, or plant the decoy path /srv/backup/wallet.dat for it, and see what changes.

import { readFile } from 'node:fs/promises'
import { Agent, type Model, type ModelResponse, Runner, tool, Usage } from '@openai/agents'
import { createMonitor } from '@wardline/sdk'
import { guardTools } from '@wardline/sdk/openai-agents'
import { z } from 'zod'

const monitor = createMonitor({
  url: process.env.WARDLINE_URL ?? 'http://127.0.0.1:4747',
  key: process.env.WARDLINE_KEY ?? '',
  instanceId: 'openai-agents-example',
  name: 'OpenAI Agents example',
  agentType: 'openai-agents',
})

const tools = guardTools(monitor, [
  tool({
    name: 'web_search',
    description: 'Searches the web.',
    parameters: z.object({ query: z.string() }),
    execute: async ({ query }) => `three pages about ${query}`,
  }),
  tool({
    name: 'file_read',
    description: 'Reads the beginning of a file.',
    parameters: z.object({ path: z.string() }),
    execute: async ({ path }) => (await readFile(path, 'utf8')).slice(0, 40),
  }),
])

// Calls that a model might make; the last one was injected into one of the pages.
const plan = [
  ['web_search', { query: 'tides at Ostend' }],
  ['file_read', { path: import.meta.filename }],
  ['file_read', { path: '/srv/backup/wallet.dat' }],
] as const
let step = 0
const model: Model = {
  async getResponse(): Promise<ModelResponse> {
    const wish = plan[step++]
    if (wish === undefined) {
      const content = [{ type: 'output_text' as const, text: 'done' }]
      return { usage: new Usage(), output: [{ type: 'message', role: 'assistant', status: 'completed', content }] }
    }
    const [name, args] = wish
    const call = { callId: `call-${step}`, name, arguments: JSON.stringify(args) }
    return { usage: new Usage(), output: [{ type: 'function_call', status: 'completed', ...call }] }
  },
  getStreamedResponse: () => {
    throw new Error('nothing is streamed here')
  },
}

await monitor.start()
const agent = new Agent({ name: 'Traveller', model, tools })
const result = await new Runner({ tracingDisabled: true }).run(agent, 'Plan a trip.')
for (const item of result.newItems) {
  if (item.type === 'tool_call_item' && item.rawItem.type === 'function_call') {
    console.log(`${item.rawItem.name} ${item.rawItem.arguments}`)
  }
  if (item.type === 'tool_call_output_item') console.log(`  ${item.output}`)
}
console.log(`the model: ${result.finalOutput}`)
console.log((await monitor.flush()) ? 'reports sent' : 'reports could not be sent')
await monitor.stop()
