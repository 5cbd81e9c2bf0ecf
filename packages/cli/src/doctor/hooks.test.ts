import { execFileSync } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { statusCommand } from './hook-run.ts'
import { checkHooks as checkOf, findHooks, hookKinds, isDenied } from './hooks.ts'

// The programs here use no real service. Black-box tests cover the real hook with the real service.
const checkAll = (home: string) => checkOf(home, {})
const checkHooks = async (home: string) =>
  (await checkAll(home)).filter(({ name }) => !/^(?:key|subagents) of/.test(name))

const folders: string[] = []
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true })
})

function newHome(): string {
  const home = mkdtempSync(join(tmpdir(), 'wardline-home-'))
  folders.push(home)
  return home
}

/** Writes a script whose command line looks like the hook's. */
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

/** Works like the hook: reads the call, asks the service, and denies the call if its instance is suspended. */
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
  const found = Object.values(hookKinds).map(({ events }) => [
    ...findHooks(claudeSettings(command), events),
    ...findHooks(
      { version: 1, hooks: { beforeShellExecution: [{ command }], preToolUse: [{ command: 'other' }] } },
      events,
    ),
    ...findHooks({ hooks: { BeforeTool: [{ matcher: '*', hooks: [{ type: 'command', command }] }] } }, events),
  ])
  expect(found.map((hooks) => hooks.map(({ event }) => event))).toEqual([
    ['PreToolUse'],
    ['PreToolUse'],
    ['beforeShellExecution'],
    ['BeforeTool'],
    ['PreToolUse'],
    [],
    [],
  ])
})

test('finds no hook in malformed settings', () => {
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

test('recognizes a denial in the form of each coding agent, and nothing else', () => {
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
  // Any other exit code allows the call, whatever the output.
  expect(answer(1, { permission: 'deny' })).toBe(false)
  expect(answer(null, { permission: 'deny' })).toBe(false)
})

test('reports ok for a hook that blocks', async () => {
  const home = newHome()
  putSettings(home, '.claude/settings.json', claudeSettings(hookProgram(home, obedient)))
  expect(await checkHooks(home)).toMatchObject([{ name: 'hook of Claude Code', status: 'ok' }])
})

// If the hook stored the suspension of the probe, the real agent would stay stopped.
test('runs the hook with a temporary state folder, and removes it', async () => {
  const home = newHome()
  const seen = join(home, 'seen')
  const script = `
    import { writeFileSync } from 'node:fs'
    const { WARDLINE_INSTANCE_ID, WARDLINE_KEY_FILE = 'none', XDG_STATE_HOME } = process.env
    writeFileSync(XDG_STATE_HOME + '/state', 'suspended')
    writeFileSync(${JSON.stringify(seen)}, [WARDLINE_INSTANCE_ID, WARDLINE_KEY_FILE, XDG_STATE_HOME].join(' '))
    process.exit(2)
  `
  putSettings(home, '.codex/hooks.json', claudeSettings(hookProgram(home, script)))
  await checkHooks(home)
  const [instanceId, keyFile, stateFolder] = readFileSync(seen, 'utf8').split(' ')
  expect([instanceId, keyFile]).toEqual(['wardline-doctor', 'none'])
  expect(existsSync(stateFolder!)).toBe(false)
})

// An installed hook that allows everything is worse than none, because people trust it.
test.each([
  ['lets calls through', 'console.log("{}")', 'fail', /let the call through/],
  ['ends with a fault', 'process.exit(1)', 'fail', /code 1, which lets the call through/],
  ['blocks without asking', 'process.exit(2)', 'warn', /without asking/],
])('reports a hook that %s', async (_case, script, status, detail) => {
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

/** Denies calls of a suspended instance if `suspended`, and those that a policy denies if `policed`; both see `call`. */
const deciding = (suspended: string, policed: string) => `
  let text = ''
  for await (const chunk of process.stdin) text += chunk
  const call = JSON.parse(text)
  const isSubagent = call.agent_id !== undefined || String(call.session_key).includes(':subagent:')
  const state = await (await fetch(process.env.WARDLINE_URL + '/api/instances/me/status')).json()
  process.exit((state.suspended ? ${suspended} : ${policed}) ? 2 : 0)
`

test.each<[string, string, string, string, string, RegExp]>([
  ['are blocked', 'Claude Code', 'true', 'isSubagent', 'ok', /Not tested: whether Claude Code runs hooks in its subag/],
  ['are not said', 'Codex', 'true', 'true', 'skip', /^Not tested: Codex does not say/],
  ['go on while suspended', 'Claude Code', '!isSubagent', 'isSubagent', 'fail', /let a call of a subagent through/],
  ['escape a policy', 'Claude Code', 'true', 'false', 'fail', /does not distinguish/],
  ['are taken for others', 'Copilot CLI', 'true', 'true', 'fail', /does not distinguish/],
])('says whether calls of subagents %s with %s', async (_case, product, suspended, policed, status, detail) => {
  const home = newHome()
  const command = hookProgram(home, deciding(suspended, policed))
  if (product === 'Claude Code') putSettings(home, '.claude/settings.json', claudeSettings(command))
  if (product === 'Codex') putSettings(home, '.codex/hooks.json', claudeSettings(command))
  if (product === 'Copilot CLI') {
    putSettings(home, '.copilot/hooks/wardline.json', { version: 1, hooks: { PreToolUse: [{ command }] } })
  }
  const found = (await checkAll(home)).filter(({ name }) => name.startsWith('subagents of'))
  expect(found).toEqual([expect.objectContaining({ name: `subagents of ${product}`, status })])
  expect(found[0]?.detail).toMatch(detail)
})

test('warns about a hook of Claude Code that would fail open', async () => {
  const home = newHome()
  putSettings(home, '.claude/settings.json', claudeSettings(hookProgram(home, obedient), { onFailure: undefined }))
  expect(await checkHooks(home)).toMatchObject([
    { status: 'warn', fix: expect.stringContaining('"onFailure": "block"') },
  ])
})

test('reports missing hooks and invalid settings, and skips if there are no settings', async () => {
  const home = newHome()
  expect(await checkHooks(home)).toMatchObject([{ status: 'skip' }])
  putSettings(home, '.cursor/hooks.json', { version: 1, hooks: {} })
  putSettings(home, '.codex/hooks.json', '{ not JSON')
  expect(await checkHooks(home)).toMatchObject([
    { name: 'hook of Codex', status: 'fail', detail: expect.stringContaining('is not valid JSON') },
    { name: 'hook of Cursor', status: 'fail', fix: 'Install it: wardline-agent install cursor' },
  ])
})

// A program that may write to the folder must not be able to hang or mislead the check.
test.skipIf(process.platform === 'win32')('tells settings that cannot be read from missing ones', async () => {
  const home = newHome()
  const [claude, codex, cursor] = ['.claude/settings.json', '.codex/hooks.json', '.cursor/hooks.json'].map((file) =>
    join(home, file),
  ) as [string, string, string]
  for (const file of [claude, codex, cursor]) mkdirSync(dirname(file))
  execFileSync('mkfifo', [claude])
  symlinkSync('hooks.json', codex)
  writeFileSync(cursor, '')
  truncateSync(cursor, 5 * 1024 * 1024)
  expect((await checkHooks(home)).map(({ status, detail }) => [status, detail])).toEqual([
    ['fail', `${claude} is not a regular file.`],
    ['fail', `${codex} cannot be read (ELOOP).`],
    ['fail', `${cursor} is longer than 4 MiB.`],
  ])
})

// Coding agents take such a file for no settings, or refuse it.
test.each<[string, string, (file: string) => void, string]>([
  ['an empty file', '.claude/settings.json', (file) => writeFileSync(file, ''), 'has no Wardline hook'],
  [
    'a link to a missing file',
    '.claude/settings.json',
    (file) => symlinkSync('gone.json', file),
    'is a link to a file that does not exist',
  ],
  [
    'a byte order mark for Codex',
    '.codex/hooks.json',
    (file) => writeFileSync(file, `\ufeff${JSON.stringify(claudeSettings('wardline-agent hook'))}`),
    'byte order mark, which Codex refuses',
  ],
])('fails for %s', async (_what, name, write, detail) => {
  const home = newHome()
  mkdirSync(dirname(join(home, name)))
  write(join(home, name))
  expect(await checkHooks(home)).toMatchObject([{ status: 'fail', detail: expect.stringContaining(detail) }])
})

test('reads settings with a byte order mark as a coding agent that ignores it', async () => {
  const home = newHome()
  putSettings(home, '.claude/settings.json', `\ufeff${JSON.stringify(claudeSettings(hookProgram(home, obedient)))}`)
  expect(await checkHooks(home)).toMatchObject([{ status: 'ok' }])
})

// The hook is there, and never runs.
test.each<[string, Record<string, unknown>, string]>([
  ['Claude Code', { '.claude/settings.json': { disableAllHooks: true } }, 'disableAllHooks in settings.json'],
  ['Codex', { '.codex/config.toml': '[features]\nhooks = false' }, 'hooks = false in config.toml'],
  ['Gemini CLI', { '.gemini/settings.json': { hooksConfig: { enabled: false } } }, 'hooksConfig in settings.json'],
  ['Copilot CLI', { '.copilot/settings.json': { disableAllHooks: true } }, 'disableAllHooks in settings.json'],
])('fails for hooks that %s does not run', async (product, files, off) => {
  const home = newHome()
  const command = 'wardline-agent hook'
  const { hooks } = claudeSettings(command)
  const known: Record<string, unknown> = {
    '.claude/settings.json': { hooks },
    '.codex/hooks.json': { hooks },
    '.gemini/settings.json': { hooks: { BeforeTool: hooks.PreToolUse } },
    '.copilot/hooks/wardline.json': { hooks: { PreToolUse: [{ command }] } },
  }
  for (const [name, content] of Object.entries(files)) {
    putSettings(home, name, typeof content === 'string' ? content : { ...Object(known[name]), ...Object(content) })
  }
  const [folder] = Object.keys(files)[0]!.split('/')
  for (const [name, content] of Object.entries(known)) {
    if (name.startsWith(`${folder}/`) && files[name] === undefined) putSettings(home, name, content)
  }
  expect(await checkHooks(home)).toMatchObject([
    { name: `hook of ${product}`, status: 'fail', detail: `${product} does not run the hook: ${off}.` },
  ])
})

test.each<[string, (config: { plugins: Record<string, unknown> }) => void]>([
  ['plugins.enabled', ({ plugins }) => Object.assign(plugins, { enabled: false })],
  ['plugins.deny', ({ plugins }) => Object.assign(plugins, { deny: ['wardline'] })],
  ['plugins.allow', ({ plugins }) => Object.assign(plugins, { allow: ['other'] })],
  ['plugins.entries.wardline', ({ plugins }) => Object.assign(plugins, { entries: {} })],
  ['plugins.entries.wardline', ({ plugins }) => Object.assign(plugins, { entries: { wardline: { enabled: false } } })],
  ['plugins.load.paths', ({ plugins }) => Object.assign(plugins, { load: {} })],
])('fails for a plugin that OpenClaw does not load by %s', async (setting, change) => {
  const home = newHome()
  const file = join(home, '.openclaw/wardline.js')
  const hooks = JSON.stringify({ before_tool_call: [{ command: 'wardline-agent hook' }] })
  const text = `// Wardline's plugin for OpenClaw. To remove it: wardline-agent uninstall openclaw\nconst hooks = ${hooks}\n`
  putSettings(home, '.openclaw/wardline.js', text)
  const config = { plugins: { load: { paths: [file] }, entries: { wardline: { enabled: true } } } }
  putSettings(home, '.openclaw/openclaw.json', config)
  expect((await checkHooks(home))[0]?.detail).not.toContain('does not run')
  change(config)
  putSettings(home, '.openclaw/openclaw.json', config)
  expect(await checkHooks(home)).toMatchObject([{ status: 'fail', detail: expect.stringContaining(`${setting} in`) }])
})

test('derives the status command from the command of a hook', () => {
  expect(statusCommand("'/usr/bin/node' '/opt/hook/wardline-agent.js' hook codex --fail-closed", 'codex')).toBe(
    "'/usr/bin/node' '/opt/hook/wardline-agent.js' status codex",
  )
  expect(statusCommand('wardline-agent hook', 'cursor')).toBe('wardline-agent status cursor')
  expect(statusCommand('wardline-agent hook | tee /tmp/log', 'cursor')).toBeUndefined()
})

// Exit code 0 without output does not prove that the key was checked.
test('reports a failure if the status command prints nothing about its key', async () => {
  const home = newHome()
  putSettings(home, '.codex/hooks.json', claudeSettings(hookProgram(home, 'process.exit(0)')))
  expect((await checkAll(home)).find(({ name }) => name === 'key of Codex')).toMatchObject({ status: 'fail' })
})
