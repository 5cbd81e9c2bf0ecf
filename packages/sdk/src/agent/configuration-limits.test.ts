import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { AgentHome } from '../testing/agent-command.ts'
import { type Item, readConfiguration } from './configuration.ts'
import { hookCommand } from './hook-command.ts'
import { withHook } from './hook-entries.ts'

// What an agent can do with files that it writes, so that its configuration is not read.

const itemsOf = (home: AgentHome): Item[] =>
  readConfiguration({ tool: 'claude-code', env: {}, key: 'key', home: home.folder, project: undefined })[0]!.items
const names = (items: readonly Item[]) => items.map(({ kind, name }) => `${kind} ${name}`)

// A file that disappears from the report would look like an entry that was removed.
test('a file that cannot be read or parsed is an item, which changes with its state', () => {
  const home = new AgentHome()
  const states = new Set<string>()
  const note = () => {
    const items = itemsOf(home)
    expect(items).toMatchObject([{ kind: 'permission', name: 'settings.json' }])
    states.add(items[0]!.sha256)
  }
  mkdirSync(home.path('.claude/settings.json'), { recursive: true })
  note()
  execFileSync('rm', ['-r', home.path('.claude/settings.json')])
  for (const text of ['{"env":', '[]', `${'['.repeat(100_000)}${']'.repeat(100_000)}`, ' '.repeat(5 * 1024 * 1024)]) {
    home.write('.claude/settings.json', text)
    note()
  }
  expect(states.size).toBe(5)
})

test('a FIFO in place of a file is not waited for', () => {
  const home = new AgentHome()
  mkdirSync(home.path('.claude'))
  for (const name of ['settings.json', 'CLAUDE.md']) execFileSync('mkfifo', [home.path('.claude', name)])
  expect(names(itemsOf(home))).toEqual(['permission settings.json', 'instructions CLAUDE.md'])
})

test('a folder with 100,000 entries is one item', { timeout: 60_000 }, () => {
  const home = new AgentHome()
  mkdirSync(home.path('.claude/agents'), { recursive: true })
  for (let count = 0; count < 100_000; count++) writeFileSync(home.path(`.claude/agents/${count}.md`), '')
  home.write('.claude/CLAUDE.md', 'a')
  const startedAt = performance.now()
  const items = itemsOf(home)
  expect(performance.now() - startedAt).toBeLessThan(1_000)
  expect(names(items)).toEqual(['instructions CLAUDE.md', 'instructions agents/*.md'])
})

test('has at most 1,000 items, with the hook among them; a change beyond them is a change', () => {
  const home = new AgentHome()
  const command = hookCommand('claude-code', false)
  const others = { hooks: { PreToolUse: Array.from({ length: 1_500 }, () => ({ hooks: [{ command: 'date' }] })) } }
  home.write('.claude/settings.json', withHook(JSON.stringify(others), 'claude-code', command))
  const write = (last: string) => {
    const servers = Array.from({ length: 3_000 }, (_, place) => [
      `server-${place}`,
      { command: place < 2_999 ? 'a' : last },
    ])
    home.write('.claude.json', { mcpServers: Object.fromEntries(servers) })
    return itemsOf(home)
  }
  const items = write('a')
  expect(items).toHaveLength(1_000)
  expect(items.filter((item) => item.ours)).toHaveLength(1)
  expect(new Set(names(items)).size).toBe(1_000)
  expect(items.slice(0, 999)).toEqual(write('b').slice(0, 999))
  expect(items).not.toEqual(write('b'))
})

test('names have no control characters, are short and unique', () => {
  const home = new AgentHome()
  const long = 'word '.repeat(100)
  home.write('.claude.json', {
    mcpServers: { 'a\u0000\u001b[2Jb\u202ec': {}, [`${long}1`]: {}, [`${long}2`]: {}, '': {} },
  })
  const found = itemsOf(home).map(({ name }) => name)
  expect(new Set(found).size).toBe(4)
  for (const name of found) {
    expect(name.length).toBeLessThanOrEqual(200)
    expect(name).not.toMatch(/\p{Cc}|\p{Cf}/u)
  }
})
