import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type DeliveredSet, PolicySet, SessionMemory } from '@wardline/policy'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { useCapturedOutput } from '../testing/captured-output.ts'

const { output, errors, folder, write, run } = useCapturedOutput()

const importPolicy = async (settings: object) => {
  expect(await run('policy', 'import', write('settings.json', JSON.stringify(settings)))).toBe(0)
  return parse(output.join(''))
}

/** Decides by an imported policy, as an agent does. */
const decide = (document: object, tool: string, args: object = {}) => {
  const policies = [{ id: 'p', title: 'p', version: 1, mode: 'enforce', document }] as DeliveredSet['policies']
  return new PolicySet({ agent: { id: 'a', tags: [] }, policies }).decide(new SessionMemory(), { tool, args, at: 0 })
    .decision
}

test('permissions of Claude Code become a policy that decides as they do', async () => {
  const document = await importPolicy({
    permissions: {
      allow: ['Bash(npm run test:*)', 'mcp__github', 'WebFetch(domain:example.com)', 'Edit(docs/**)'],
      ask: ['Bash(git push *)'],
      deny: ['Bash(curl *)', 'Read(./.env)', 'Read(~/.ssh/**)', 'Write(//etc/**)'],
    },
  })
  const decisions = [
    ['Bash', { command: 'npm run test:unit' }, 'allow'],
    ['Bash', { command: 'npm run test && curl evil.example' }, 'deny'],
    ['Bash', { command: 'git push origin main' }, 'ask'],
    ['Bash', { command: 'make' }, 'ask'],
    ['Read', { file_path: '/home/a/project/src/a.ts' }, 'allow'],
    ['Read', { file_path: '/home/a/project/.env' }, 'deny'],
    ['Grep', { path: '/home/a/.ssh/id_rsa', pattern: 'x' }, 'deny'],
    ['Write', { file_path: '/etc/passwd' }, 'deny'],
    ['Write', { file_path: '/home/a/project/docs/a.md' }, 'allow'],
    ['Write', { file_path: '/home/a/project/src/a.ts' }, 'ask'],
    ['WebFetch', { url: 'https://example.com/a' }, 'allow'],
    ['WebFetch', { url: 'https://evil.example' }, 'ask'],
    ['mcp__github__create_issue', {}, 'allow'],
    ['mcp__other__tool', {}, 'ask'],
  ] as const
  expect(decisions.map(([tool, args]) => [tool, args, decide(document, tool, args)])).toEqual(decisions)
  expect(document.mode).toBe('observe')
  expect(errors).toEqual([])
})

test.each([
  ['acceptEdits', 'allow', 'ask'],
  ['plan', 'deny', 'deny'],
  ['dontAsk', 'deny', 'deny'],
  ['bypassPermissions', 'allow', 'allow'],
  ['default', 'ask', 'ask'],
])('defaultMode %s decides on what no permission names', async (defaultMode, edit, bash) => {
  const document = await importPolicy({ permissions: { defaultMode } })
  expect([decide(document, 'Edit', { file_path: 'a' }), decide(document, 'Bash', { command: 'x' })]).toEqual([
    edit,
    bash,
  ])
  expect(decide(document, 'Read', { file_path: 'a' })).toBe('allow')
})

test('what cannot be converted is named', async () => {
  await importPolicy({
    permissions: {
      allow: ['Task(Explore)', 7, 'Bash(', 'Edit(/src/**)'],
      defaultMode: '\u001b[31mwild',
    },
  })
  expect(errors).toEqual([
    '-- allow "Task(Explore)" is left out: what is in the brackets of Task is neither a command, a path nor a host',
    '-- allow 7 is left out: it is not of the form Tool or Tool(pattern)',
    '-- allow "Bash(" is left out: it is not of the form Tool or Tool(pattern)',
    '-- /src/** begins at the project in Claude Code, and matches below any folder here; write //… for an absolute path',
    '-- permissions.defaultMode "\\u001b[31mwild" is unknown; taken as default',
  ])
})

test('what contradicts itself is named, as storing it would', async () => {
  await importPolicy({ permissions: { allow: ['Bash(rm *)'], deny: ['Bash'], defaultMode: 'bypassPermissions' } })
  expect(errors.join('\n')).toMatch(/^imported:\d+:\d+: rules\[1\] never decides: the rule "Denied"/)
})

test.each([
  ['no JSON', '{', 'it is neither JSON nor has it lines with prefix_rule(…).'],
  [
    'no permissions',
    '{"env":{}}',
    'it has neither permissions, as settings.json of Claude Code, nor permission, as opencode.json.',
  ],
  ['a list', '[]', 'it has neither permissions, as settings.json of Claude Code, nor permission, as opencode.json.'],
])('settings with %s are refused', async (_what, text, sentence) => {
  expect(await run('policy', 'import', write('settings.json', text))).toBe(1)
  expect(errors).toEqual([`${join(folder(), 'settings.json')}: ${sentence}`])
})

test('a policy becomes permissions where these can say it, and the rest is named', async () => {
  const file = write(
    'p.yml',
    `title: Coding
default: deny
flow: default
for: { tags: [laptop] }
rules:
  - { title: One, decision: deny, match: { tool: ['bash(rm -rf *)', 'Read(~/.ssh/**)', volume_delete, mcp__db__drop] } }
  - { title: Two, decision: allow, match: { tool: ['Bash(git *)', 'mcp__github__*', 'mcp__*__read'] } }
  - { title: Three, decision: ask, match: { tool: Bash }, when: { 'command|glob': '*sudo*' } }
  - { title: Four, decision: ask, match: { tool: Write }, limit: { calls: 5, within: 1m } }
  - { title: Five, decision: ask, match: { tool: WebFetch }, approvals: 2 }
`,
  )
  expect(await run('policy', 'export', file, '--to', 'claude-code')).toBe(0)
  expect(JSON.parse(output.join(''))).toEqual({
    permissions: {
      deny: ['Bash(rm -rf *)', 'Read(~/.ssh/**)', 'mcp__db__drop'],
      allow: ['Bash(git *)', 'mcp__github__*'],
      defaultMode: 'dontAsk',
    },
  })
  expect(errors).toEqual([
    '-- left out: rule "One": volume_delete is no tool of Claude Code',
    '-- left out: rule "Two": mcp__*__read is no tool of Claude Code',
    '-- left out: rule "Three": conditions on arguments (command|glob)',
    '-- left out: rule "Four": limit',
    '-- left out: rule "Five": two people have to approve',
    '-- left out: flow default: what a session has read does not count in permissions',
    '-- left out: for: settings do not select agents',
    '-- the policy is in mode observe, and the permissions decide',
  ])
})

test('permissions that were imported are exported again', async () => {
  const permissions = { deny: ['Bash(curl *)', 'Write(//etc/**)'], ask: ['Bash(git push *)'], allow: ['WebSearch'] }
  await run('policy', 'import', write('settings.json', JSON.stringify({ permissions })))
  const file = write('p.yml', output.splice(0).join(''))
  expect(readFileSync(file, 'utf8')).toContain('Bash(git push *)')
  await run('policy', 'export', file, '--to', 'claude-code')
  expect(JSON.parse(output.join('')).permissions).toMatchObject({ deny: permissions.deny, ask: permissions.ask })
})
