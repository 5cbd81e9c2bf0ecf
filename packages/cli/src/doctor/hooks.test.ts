import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { statusCommand } from './hook-run.ts'
import { checkHooks as checkAll, codingAgents, findHooks, isDenied } from './hooks.ts'

// The programs here ask no real service: that is tried with the real hook and the real service, by the black-box tests.
const checkHooks = async (home: string) => (await checkAll(home)).filter(({ name }) => !name.startsWith('key of'))

const folders: string[] = []
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true })
})

function newHome(): string {
  const home = mkdtempSync(join(tmpdir(), 'wardline-home-'))
  folders.push(home)
  return home
}

/** A program at a path that looks like the hook's, whose text decides what it does. */
function hookProgram(home: string, script: string): string {
  const file = join(home, 'wardline-agent.mjs')
  writeFileSync(file, script)
  return `"${process.execPath}" "${file}" wardline-agent hook`
}

function putSettings(home: string, settings: string, content: unknown): void {
  const file = join(home, settings)
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content))
}

const claudeSettings = (command: string, more = {}) => ({
  model: 'any',
  hooks: {
    PreToolUse: [
      { matcher: 'Write', hooks: [{ type: 'command', command: 'prettier --check' }] },
      { matcher: '*', hooks: [{ type: 'command', command, timeout: 5, onFailure: 'block', ...more }] },
    ],
  },
})

/** As a hook works: reads the call, asks the service, denies when its instance is suspended. */
const obedient = `
  let text = ''
  for await (const chunk of process.stdin) text += chunk
  const call = JSON.parse(text)
  const answer = await fetch(process.env.WARDLINE_URL + '/api/instances/me/status', { headers: { 'x-monitor-key': process.env.WARDLINE_KEY } })
  const { suspended, reason } = await answer.json()
  const permissionDecision = suspended && call.tool_input.command === 'true' ? 'deny' : 'allow'
  console.log(JSON.stringify({ hookSpecificOutput: { hookEventName: 'PreToolUse', permissionDecision, permissionDecisionReason: reason } }))
`

test('finds the hook in the settings of every coding agent', () => {
  const command = 'npx wardline-agent hook --fail closed'
  const found = codingAgents.map(({ events }) => [
    ...findHooks(claudeSettings(command), events),
    ...findHooks(
      { version: 1, hooks: { beforeShellExecution: [{ command }], preToolUse: [{ command: 'other' }] } },
      events,
    ),
  ])
  expect(found.map((hooks) => hooks.map(({ event }) => event))).toEqual([
    ['PreToolUse'],
    ['PreToolUse'],
    ['beforeShellExecution'],
  ])
})

test('reads settings of any form without a fault', () => {
  for (const settings of [
    null,
    [],
    7,
    'x',
    { hooks: 7 },
    { hooks: { PreToolUse: [[null], { hooks: null }, { command: 7 }] } },
  ]) {
    expect(findHooks(settings, ['PreToolUse'])).toEqual([])
  }
})

test('knows a denial in the form of each agent, and takes everything else for none', () => {
  const answer = (exitCode: number | null, stdout: unknown) =>
    isDenied({
      exitCode,
      stdout: typeof stdout === 'string' ? stdout : JSON.stringify(stdout),
      timedOut: false,
      asked: 1,
      ms: 1,
    })
  expect(answer(2, '')).toBe(true)
  expect(answer(0, { hookSpecificOutput: { permissionDecision: 'deny' } })).toBe(true)
  expect(answer(0, { permission: 'deny' })).toBe(true)
  expect(answer(0, { decision: 'block' })).toBe(true)
  expect(answer(0, { continue: false })).toBe(true)
  for (const passed of ['', 'deny', 'null', '[]', { hookSpecificOutput: { permissionDecision: 'ask' } }, {}]) {
    expect(answer(0, passed), JSON.stringify(passed)).toBe(false)
  }
  // Any other code lets the call through, whatever was printed.
  expect(answer(1, { permission: 'deny' })).toBe(false)
  expect(answer(null, { permission: 'deny' })).toBe(false)
})

test('says that a hook blocks when it does', async () => {
  const home = newHome()
  putSettings(home, '.claude/settings.json', claudeSettings(hookProgram(home, obedient)))
  expect(await checkHooks(home)).toMatchObject([{ name: 'hook of Claude Code', status: 'ok' }])
})

// What a hook remembers of the probe would keep the real agent stopped after it.
test('gives the hook a temporary state folder, and removes it', async () => {
  const home = newHome()
  const seen = join(home, 'seen')
  const script = `
    import { writeFileSync } from 'node:fs'
    const { WARDLINE_INSTANCE_ID, WARDLINE_KEY_FILE = 'none', XDG_STATE_HOME } = process.env
    writeFileSync(XDG_STATE_HOME + '/told', 'suspended')
    writeFileSync(${JSON.stringify(seen)}, [WARDLINE_INSTANCE_ID, WARDLINE_KEY_FILE, XDG_STATE_HOME].join(' '))
    process.exit(2)
  `
  putSettings(home, '.codex/hooks.json', claudeSettings(hookProgram(home, script)))
  await checkHooks(home)
  const [instanceId, keyFile, stateFolder] = readFileSync(seen, 'utf8').split(' ')
  expect([instanceId, keyFile]).toEqual(['wardline-doctor', 'none'])
  expect(existsSync(stateFolder!)).toBe(false)
})

// A hook that is installed but lets everything through is worse than none: people trust it.
test.each([
  ['lets calls through', 'console.log("{}")', 'fail', /let the call through/],
  ['ends with a fault', 'process.exit(1)', 'fail', /code 1, which lets the call through/],
  ['blocks without asking', 'process.exit(2)', 'warn', /without asking/],
])('says so of a hook that %s', async (_case, script, status, detail) => {
  const home = newHome()
  putSettings(home, '.codex/hooks.json', claudeSettings(hookProgram(home, script)))
  expect(await checkHooks(home)).toEqual([
    expect.objectContaining({
      name: 'hook of Codex',
      status,
      detail: expect.stringMatching(detail),
      fix: expect.any(String),
    }),
  ])
})

test('warns of a hook of Claude Code that would fail open', async () => {
  const home = newHome()
  putSettings(home, '.claude/settings.json', claudeSettings(hookProgram(home, obedient), { onFailure: undefined }))
  expect(await checkHooks(home)).toMatchObject([
    { status: 'warn', fix: expect.stringContaining('"onFailure": "block"') },
  ])
})

test('says what is missing or broken, and skips where there is nothing', async () => {
  const home = newHome()
  expect(await checkHooks(home)).toMatchObject([{ status: 'skip' }])
  putSettings(home, '.cursor/hooks.json', { version: 1, hooks: {} })
  putSettings(home, '.codex/hooks.json', '{ not JSON')
  expect(await checkHooks(home)).toMatchObject([
    { name: 'hook of Codex', status: 'fail', detail: expect.stringContaining('is not valid JSON') },
    { name: 'hook of Cursor', status: 'fail', fix: 'Install it: wardline-agent install cursor' },
  ])
})

test('asks the program of a hook how it stands with the service, where install has registered it', () => {
  expect(statusCommand("'/usr/bin/node' '/opt/hook/wardline-agent.js' hook codex --fail-closed", 'codex')).toBe(
    "'/usr/bin/node' '/opt/hook/wardline-agent.js' status codex",
  )
  expect(statusCommand('wardline-agent hook', 'cursor')).toBe('wardline-agent status cursor')
  expect(statusCommand('wardline-agent hook | tee /tmp/log', 'cursor')).toBeUndefined()
})

// It says nothing about the key, so it must not read as if the key was checked.
test('takes a program that says nothing of its key for one without a right key', async () => {
  const home = newHome()
  putSettings(home, '.codex/hooks.json', claudeSettings(hookProgram(home, 'process.exit(0)')))
  expect((await checkAll(home)).find(({ name }) => name === 'key of Codex')).toMatchObject({ status: 'fail' })
})
