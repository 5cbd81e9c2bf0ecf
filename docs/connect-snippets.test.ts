import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import type { Tab } from '../packages/dashboard/src/connect/search.ts'
import { guides } from '../packages/dashboard/src/connect/snippets.ts'

const guide = (path: string) => readFileSync(new URL(`../${path}`, import.meta.url), 'utf8')
const agents = guide('docs/guide/agents.md')
const given = { url: 'http://127.0.0.1:4747', agent: 'support-bot-1', key: 'wl_agent_…' }
const lines = (tab: Tab) => guides[tab].steps(given).flatMap(({ text }) => text.split('\n'))

// What the guides show is run by their tests: a screen that shows something else would show what nobody ran.
test.each<[Tab, string, string[]]>([
  ['typescript', agents, ['node agent.mts']],
  ['python', agents + guide('clients/python/README.md'), ['python3 agent.py']],
  ['curl', agents, []],
])('what the screen shows for %s stands in the guide', (tab, text, others) => {
  for (const line of lines(tab).filter((shown) => !others.includes(shown))) expect(text).toContain(line)
})

test.each<Tab>(['claude-code', 'codex', 'cursor', 'mcp'])('the commands for %s stand in the guide', (tab) => {
  const text = guide('docs/guide/coding-agents.md')
  const commands = lines(tab).filter((line) => /^(npm|wardline-agent) /.test(line))
  expect(commands.length).toBeGreaterThan(0)
  for (const line of commands) expect(text).toContain(line.replace(/(codex|cursor)$/, 'claude-code'))
})
