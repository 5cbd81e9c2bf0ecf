import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { checkPolicySetup } from './policy-setup.ts'

// The programs here stand for hooks; hooks.test.ts of e2e runs the real one.

const folders: string[] = []
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true })
})

/** Denies the command of the policy, wherever it stands on the line. */
const enforcing = `
  const answer = await fetch(process.env.WARDLINE_URL + '/api/instances/me/policy')
  const { policies: [{ document: { rules: [{ match: { tool } }] } }] } = JSON.parse((await answer.json()).body)
  const word = tool.replace('Bash(', '').replace(')', '')
  deny(command.split(/[^a-z]+/).includes(word))
`
const programOf = (decide: string) => `
  let text = ''
  for await (const chunk of process.stdin) text += chunk
  const { command } = JSON.parse(text).tool_input
  const deny = (is) => console.log(is ? '{"hookSpecificOutput":{"permissionDecision":"deny"}}' : '{}')
  ${decide}
`

interface Setup {
  decide?: string
  matcher?: string
  events?: readonly string[]
  further?: object
  managed?: unknown
  /** A further file of administrators. */
  dropIn?: unknown
}

async function check({
  decide = enforcing,
  matcher = '*',
  events = ['UserPromptSubmit', 'PostToolUse'],
  further = {},
  managed,
  dropIn,
}: Setup) {
  const home = mkdtempSync(join(tmpdir(), 'wardline-home-'))
  folders.push(home)
  const program = join(home, 'wardline-agent.mjs')
  writeFileSync(program, programOf(decide))
  const command = `"${process.execPath}" "${program}" wardline-agent hook`
  const entries = [{ hooks: [{ type: 'command', command }] }]
  const settings = {
    ...further,
    hooks: {
      PreToolUse: [{ matcher, hooks: [{ type: 'command', command }] }],
      ...Object.fromEntries(events.map((event) => [event, entries])),
    },
  }
  const file = join(home, '.claude/settings.json')
  mkdirSync(dirname(file))
  writeFileSync(file, JSON.stringify(settings))
  const folder = join(home, 'managed')
  mkdirSync(join(folder, 'managed-settings.d'), { recursive: true })
  const managedFile = join(folder, 'managed-settings.json')
  if (managed === 'a folder') mkdirSync(managedFile)
  else if (managed) writeFileSync(managedFile, JSON.stringify(managed))
  if (dropIn) writeFileSync(join(folder, 'managed-settings.d', '10-hooks.json'), JSON.stringify(dropIn))
  return checkPolicySetup(home, {}, folder)
}

test('reports ok for a hook that enforces a policy, hears prompts and results, and runs for every tool', async () => {
  expect((await check({})).map(({ name, status }) => [name, status])).toEqual([
    ['policy of Claude Code', 'ok'],
    ['flows of Claude Code', 'ok'],
    ['reach of Claude Code', 'ok'],
  ])
})

test.each([
  ['lets every call through', 'deny(false)', /let a call through that a policy denies/],
  ['denies every call', 'deny(true)', /denied a call that no policy denies/],
  [
    'does not know wrappers',
    "deny(command === 'true')",
    /let through: env -i sh -c 'true'; sudo -n true; echo a && true/,
  ],
])('fails for a hook that %s', async (_case, decide, detail) => {
  const [policy] = await check({ decide })
  expect(policy).toMatchObject({ name: 'policy of Claude Code', status: 'fail', detail: expect.stringMatching(detail) })
})

test.each([
  ['results', ['UserPromptSubmit'], /^Results are not reported/],
  ['prompts', ['PostToolUse'], /^Prompts are not reported/],
])('warns when %s are not reported', async (_case, events, detail) => {
  const [, flows] = await check({ events })
  expect(flows).toMatchObject({ status: 'warn', detail: expect.stringMatching(detail) })
})

test.each<[string, Setup, string, RegExp]>([
  ['a matcher of some tools', { matcher: 'Write' }, 'warn', /some tools only/],
  ['hooks that are switched off', { further: { disableAllHooks: true } }, 'fail', /disableAllHooks in settings.json/],
  [
    'managed settings that run only their own hooks',
    { managed: { allowManagedHooksOnly: true } },
    'fail',
    /allowManagedHooksOnly/,
  ],
  ['managed settings without hooks', { managed: { disableAllHooks: true } }, 'fail', /disableAllHooks/],
  [
    'a further managed file that runs only its own hooks',
    { dropIn: { allowManagedHooksOnly: true } },
    'fail',
    /allowManagedHooksOnly in the managed settings/,
  ],
  // They may forbid the hook.
  [
    'managed settings that cannot be read',
    { managed: 'a folder' },
    'warn',
    /not known: managed-settings.json cannot be read/,
  ],
])('reports %s', async (_case, setup, status, detail) => {
  const [, , reach] = await check(setup)
  expect(reach).toMatchObject({ name: 'reach of Claude Code', status, detail: expect.stringMatching(detail) })
})

test('a later managed file overrides an earlier one', async () => {
  const [, , reach] = await check({ managed: { disableAllHooks: true }, dropIn: { disableAllHooks: false } })
  expect(reach).toMatchObject({ status: 'ok' })
})
