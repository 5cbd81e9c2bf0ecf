import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import type { Tab } from '../packages/dashboard/src/connect/search.ts'
import { guides } from '../packages/dashboard/src/connect/snippets.ts'

const guide = (path: string) => readFileSync(new URL(`../${path}`, import.meta.url), 'utf8')
const agents = guide('docs/guide/agents.md')
const given = { url: 'http://127.0.0.1:4747', agent: 'support-bot-1', key: 'wl_agent_…' }
const lines = (tab: Tab, by = given) => guides[tab].steps(by).flatMap(({ text }) => text.split('\n'))
const codeOf = (text: string, language: string) =>
  new RegExp(`\`\`\`${language}\\n(.*?)\`\`\``, 's').exec(text)![1]!.split('\n')

// The guides show fewer lines, and their tests run them. e2e/browser/connect.test.ts runs what the screen shows.
test('the program of the guide is a part of the one that the screen shows for JavaScript', () => {
  const shown = lines('javascript')
  for (const line of codeOf(agents, 'js')) expect(shown).toContain(line)
})

test('the screen shows the monitor and the guarded tool of the guide for Python', () => {
  const program = codeOf(guide('clients/python/README.md'), 'python').filter(
    (line) => !/^(from|with|monitor| {4}print)/.test(line),
  )
  expect(program).toContain("@monitor.guard_tool('file-read')    # for async functions too")
  for (const line of program) expect(lines('python')).toContain(line)
})

// A new agent must not get the name, the kind or the files of the agent in the guide.
test.each(Object.keys(guides) as Tab[])('the lines for %s name the agent that was entered, and no other', (tab) => {
  const shown = lines(tab, { ...given, agent: 'my-agent' }).join('\n')
  expect(shown).toContain('my-agent')
  expect(shown).not.toMatch(/support.?bot|langgraph|1\.4\.0/i)
  for (const [, name] of shown.matchAll(/"name":"([^"]*)"/g)) expect(name).toBe('my-agent')
})

test('the lines for the supervisor and for the model gateway stand in their guides', () => {
  const gateway = guide('docs/guide/gateway.md').replaceAll('http://host:4748', 'http://127.0.0.1:4748')
  const addresses = lines('model').flatMap((line) => /http:\/\/127\.0\.0\.1:4748\/\w+(\/v1)?/.exec(line)?.[0] ?? [])
  expect(new Set(addresses).size).toBe(3)
  for (const address of addresses) expect(gateway).toContain(address)
  for (const line of lines('model').filter((text) => /^ {2}\w+: +\{ kind/.test(text))) {
    expect(gateway).toContain(/kind: \w+, +url: [^,]+/.exec(line)![0])
  }
  expect(guide('docs/guide/supervisor.md')).toContain('wardline-agent run --instance support-bot-1 -- ')
})

test.each<Tab>(['claude-code', 'codex', 'cursor', 'gemini-cli', 'copilot-cli', 'opencode', 'openclaw', 'mcp'])(
  'the commands for %s stand in the guide',
  (tab) => {
    const text = guide('docs/guide/coding-agents.md')
    const commands = lines(tab).filter((line) => /^(npm|wardline-agent) /.test(line))
    expect(commands.length).toBeGreaterThan(0)
    for (const line of commands)
      expect(text).toContain(line.replace(/(codex|cursor|gemini-cli|copilot-cli|opencode|openclaw)$/, 'claude-code'))
  },
)
