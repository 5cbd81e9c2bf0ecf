// An agent of the AI SDK 7, watched by Wardline. A script stands in for the model, so it runs offline.
//
//   export WARDLINE_URL=http://127.0.0.1:4747 WARDLINE_KEY=<a key of scope agent for ai-sdk-example>
//   npm run example -- ai-sdk
//
// Suspend ai-sdk-example, or plant the decoy path /srv/backup/wallet.dat for it, and see what changes.

import { readFile } from 'node:fs/promises'
import { createMonitor } from '@wardline/sdk'
import { guardApproval, guardTools } from '@wardline/sdk/ai-sdk/v7'
// In your own program, import from 'ai'. This repository installs two versions of it.
import { ToolLoopAgent, tool } from 'ai-v7'
import { MockLanguageModelV4 } from 'ai-v7/test'
import { z } from 'zod'

const monitor = createMonitor({
  url: process.env.WARDLINE_URL ?? 'http://127.0.0.1:4747',
  key: process.env.WARDLINE_KEY ?? '',
  instanceId: 'ai-sdk-example',
  name: 'AI SDK example',
  agentType: 'ai-sdk',
})

const tools = guardTools(monitor, {
  'web-search': tool({
    inputSchema: z.object({ query: z.string() }),
    execute: async ({ query }) => `three pages about ${query}`,
  }),
  'file-read': tool({
    inputSchema: z.object({ path: z.string() }),
    execute: async ({ path }) => (await readFile(path, 'utf8')).slice(0, 40),
  }),
})

// Calls that a model might make; the last one was injected into one of the pages.
const plan = [
  ['web-search', { query: 'tides at Ostend' }],
  ['file-read', { path: import.meta.filename }],
  ['file-read', { path: '/srv/backup/wallet.dat' }],
] as const
const usage = {
  inputTokens: { total: 0, noCache: 0, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 0, text: 0, reasoning: 0 },
}
let step = 0
const model = new MockLanguageModelV4({
  doGenerate: async () => {
    const wish = plan[step++]
    if (wish === undefined) {
      const finishReason = { unified: 'stop', raw: undefined } as const
      return { content: [{ type: 'text', text: 'done' }], finishReason, usage, warnings: [] }
    }
    const [toolName, input] = wish
    const call = { type: 'tool-call', toolCallId: `call-${step}`, toolName, input: JSON.stringify(input) } as const
    return { content: [call], finishReason: { unified: 'tool-calls', raw: undefined }, usage, warnings: [] }
  },
})

await monitor.start()
const agent = new ToolLoopAgent({
  model,
  tools,
  toolApproval: guardApproval(monitor),
  onStepEnd: ({ content }) => {
    for (const part of content) {
      if (part.type === 'tool-result') {
        console.log(`${part.toolName} ${JSON.stringify(part.input)}: ${JSON.stringify(part.output)}`)
      }
    }
  },
})
const { text } = await agent.generate({ prompt: 'Plan a trip.' })
console.log(`the model: ${text}`)
console.log((await monitor.flush()) ? 'reports sent' : 'reports could not be sent')
await monitor.stop()
