import { type DeliveredSet, PolicySet, SessionMemory } from '@wardline/policy'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { useCapturedOutput } from '../testing/captured-output.ts'

const { output, errors, write, run } = useCapturedOutput()

const importText = async (name: string, text: string) => {
  expect(await run('policy', 'import', write(name, text))).toBe(0)
  return parse(output.join(''))
}
const decisionsOf = (document: object, calls: readonly (readonly [string, object, string])[]) => {
  const policies = [{ id: 'p', title: 'p', version: 1, mode: 'enforce', document }] as DeliveredSet['policies']
  const set = new PolicySet({ agent: { id: 'a', tags: [] }, policies })
  return calls.map(([tool, args]) => [tool, args, set.decide(new SessionMemory(), { tool, args, at: 0 }).decision])
}

test('permissions of OpenCode become a policy, with the default that makes exceptions possible', async () => {
  const document = await importText(
    'opencode.json',
    JSON.stringify({
      permission: {
        edit: 'ask',
        bash: { '*': 'ask', 'git status*': 'allow', 'rm *': 'deny' },
        webfetch: 'deny',
        external_directory: 'ask',
      },
    }),
  )
  const calls = [
    ['bash', { command: 'git status' }, 'allow'],
    ['bash', { command: 'git push' }, 'ask'],
    ['bash', { command: 'git status && rm -r x' }, 'deny'],
    ['write', { filePath: 'a' }, 'ask'],
    ['webfetch', { url: 'https://example.com' }, 'deny'],
    ['read', { filePath: 'a' }, 'allow'],
  ] as const
  expect(decisionsOf(document, calls)).toEqual(calls)
  expect(errors).toEqual([
    '-- external_directory is left out: it is about no tool',
    '-- default ask: it also applies to tools of MCP servers, which OpenCode allows without a permission',
  ])
})

test('what OpenCode decides by the last pattern is named where the strictest rule decides otherwise', async () => {
  const document = await importText(
    'opencode.json',
    JSON.stringify({
      permission: {
        '*': 'deny',
        bash: { '*': 'allow', 'git *': 'ask', 'git log*': 'allow', x: 7 },
        edit: { '*': 'ask', 'docs/**': 'allow' },
        task: { '*': 'allow', secret: 'deny' },
        mcp_tool: 'allow',
      },
    }),
  )
  const calls = [
    ['bash', { command: 'ls' }, 'allow'],
    ['bash', { command: 'git log' }, 'ask'],
    ['edit', { filePath: 'docs/a.md' }, 'ask'],
    ['mcp_tool', {}, 'allow'],
    ['another', {}, 'deny'],
  ] as const
  expect(decisionsOf(document, calls)).toEqual(calls)
  expect(errors).toEqual([
    '-- bash "x" is left out: 7 is no decision',
    '-- bash "git log*" does not undo "git *": the strictest rule decides',
    '-- edit "docs/**" is left out: allow beside the stricter ask, and the strictest rule decides',
    '-- task "secret" is left out: what task acts on is neither a command nor a path',
  ])
})

test('rules of Codex become a policy', async () => {
  const document = await importText(
    'default.rules',
    `# Comments, and calls over several lines
prefix_rule(
    pattern = ["gh", ["pr", 'issue'], "view"],
    decision = "allow",
    justification = "reads only",
    match = ["gh pr view 7", ["gh", "issue", "view"]],
)
prefix_rule(pattern=["git", "push"], decision="prompt")
prefix_rule(pattern=["rm"], decision="forbidden")
prefix_rule(pattern=["a b"])
prefix_rule(pattern=prefix)
`,
  )
  const calls = [
    ['Bash', { command: 'gh issue view 7' }, 'allow'],
    ['Bash', { command: 'git push' }, 'ask'],
    ['Bash', { command: 'git push origin main' }, 'ask'],
    ['Bash', { command: 'git pushed' }, 'allow'],
    ['Bash', { command: 'cd x && rm -r y' }, 'deny'],
  ] as const
  expect(decisionsOf(document, calls)).toEqual(calls)
  expect(document.rules.map(({ title }: { title: string }) => title)).toEqual(['Denied', 'Asked', 'Allowed'])
  expect(errors).toHaveLength(3)
  expect(errors[0]).toMatch(/^-- prefix_rule 4 is left out: it needs pattern=/)
})
