// An agent of the Claude Agent SDK, watched by Wardline. A script stands in for Claude Code, so it runs offline.
//
//   export WARDLINE_URL=http://127.0.0.1:4747 WARDLINE_KEY=<a key of scope agent for claude-agent-sdk-example>
//   npm run example -- claude-agent-sdk
//
// Suspend claude-agent-sdk-example, or plant the decoy path /srv/backup/wallet.dat for it, and see what changes.

import { join } from 'node:path'
import { query } from '@anthropic-ai/claude-agent-sdk'
import { createMonitor } from '@wardline/sdk'
import { guardHooks } from '@wardline/sdk/claude-agent-sdk'

const monitor = createMonitor({
  url: process.env.WARDLINE_URL ?? 'http://127.0.0.1:4747',
  key: process.env.WARDLINE_KEY ?? '',
  instanceId: 'claude-agent-sdk-example',
  name: 'Claude Agent SDK example',
  agentType: 'claude-agent-sdk',
})

// Calls that a model might make; the last one was injected into the file.
const plan = [
  { tool: 'Read', input: { file_path: import.meta.filename } },
  { tool: 'Read', input: { file_path: '/srv/backup/wallet.dat' } },
]

await monitor.start()
const messages = query({
  prompt: JSON.stringify(plan),
  options: {
    hooks: guardHooks(monitor),
    // Remove these lines to use the real Claude Code.
    pathToClaudeCodeExecutable: join(import.meta.dirname, 'offline-claude.ts'),
    settingSources: [],
  },
})
for await (const message of messages) {
  if (message.type !== 'assistant' && message.type !== 'user') continue
  const { content } = message.message
  for (const part of typeof content === 'string' ? [] : content) {
    if (part.type === 'tool_use') console.log(`${part.name} ${JSON.stringify(part.input)}`)
    if (part.type === 'tool_result') console.log(`  ${String(part.content).split('\n')[0]}`)
  }
}
console.log((await monitor.flush()) ? 'reports sent' : 'reports could not be sent')
await monitor.stop()
