import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { runCommand, startCommand } from './command.ts'
import { newDataDir, type Service, startService } from './service.ts'
import type { StatusView } from './shapes.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const agentProgram = join(root, 'packages/sdk/src/wardline-agent.ts')
// Compiling the TypeScript of a command takes longer than running it.
const compileCache = join(root, 'node_modules/.cache/wardline-agent')
/** The hook runs from its sources, and those of the policy package. */
const sources = { NODE_OPTIONS: '--conditions=wardline-source' }
const guide = readFileSync(join(root, 'docs/guide/coding-agents.md'), 'utf8')

const tools = {
  'claude-code': { name: 'Claude Code', file: '.claude/settings.json' },
  codex: { name: 'Codex', file: '.codex/hooks.json' },
  cursor: { name: 'Cursor', file: '.cursor/hooks.json' },
  'gemini-cli': { name: 'Gemini CLI', file: '.gemini/settings.json' },
  'copilot-cli': { name: 'Copilot CLI', file: '.copilot/hooks/wardline.json' },
  opencode: { name: 'OpenCode', file: '.config/opencode/plugins/wardline.js' },
  openclaw: { name: 'OpenClaw', file: '.openclaw/wardline.js' },
} as const
type Tool = keyof typeof tools
const everyTool = Object.keys(tools) as Tool[]

interface Report {
  ok: boolean
  checks: { name: string; status: string; detail: string; fix?: string }[]
}

let service: Service
beforeAll(async () => {
  service = await startService()
}, 60_000)
afterAll(() => service?.stop())

let home: string
beforeEach(() => {
  home = newDataDir()
})

/** Runs a program in the home folder without the variables of the shell. */
async function run(command: string, args: string[] = [], input = '', variables: Record<string, string> = {}) {
  const child = spawn(command, args, {
    cwd: home,
    shell: args.length === 0,
    env: { PATH: process.env.PATH ?? '', HOME: home, ...sources, NODE_COMPILE_CACHE: compileCache, ...variables },
  })
  let [stdout, stderr] = ['', '']
  child.stdout.setEncoding('utf8').on('data', (text) => {
    stdout += text
  })
  child.stderr.setEncoding('utf8').on('data', (text) => {
    stderr += text
  })
  child.stdin.on('error', () => {}).end(input)
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve))
  return { code, stdout, stderr }
}

const agentWith = (variables: Record<string, string>, args: string[], input = '') =>
  run(process.execPath, [agentProgram, ...args], input, variables)
const agent = (...args: string[]) => agentWith({}, args)

/** The settings of an operator's command line. */
const operator = () => ({ HOME: home, WARDLINE_URL: service.baseUrl, WARDLINE_KEY: service.key })

const wardline = (...args: string[]) => runCommand(args, operator())

/** Options for the key as in the guide. */
const guideCommand = /^.*\bkeys (create --scope agent .*)$/m.exec(guide)![1]!

async function newKey(args = guideCommand): Promise<string> {
  const { output } = await wardline('keys', ...args.replaceAll("'", '').split(' '))
  return /^wl_agent_\w+$/m.exec(output)![0]
}

function useSettings(settings: { url?: string; key: string; failMode?: string }): void {
  const file = join(home, '.config/wardline/agent.json')
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, JSON.stringify({ url: service.baseUrl, ...settings }), { mode: 0o600 })
}

async function doctor(variables: Record<string, string> = {}, checks = /^(hook|key) of /): Promise<Report['checks']> {
  // It looks for hooks in the home folder of its process.
  const { output } = await startCommand(['doctor', '--hooks', '--json'], {
    ...operator(),
    ...sources,
    ...variables,
  }).ended
  return (JSON.parse(output) as Report).checks.filter(({ name }) => checks.test(name))
}

/** Calls the plugin like OpenCode, which loads it and reports what it throws, or like OpenClaw. */
function callPlugin(tool: 'opencode' | 'openclaw') {
  const claw = `
    const { default: plugin } = await import(${JSON.stringify(join(home, tools.openclaw.file))})
    const agent = { resolveAgentWorkspaceDir: () => ${JSON.stringify(home)} }
    plugin.register({ runtime: { agent }, on: async (_event, before) => {
      const answer = await before({ toolName: 'exec', toolCallId: 'c', params: { command: 'ls' } }, { sessionId: 's' })
      if (answer) throw new Error(answer.blockReason)
    } })`
  const code = `
    const { Wardline } = await import(${JSON.stringify(join(home, tools.opencode.file))})
    const { 'tool.execute.before': before } = await Wardline({ directory: ${JSON.stringify(home)} })
    await before({ tool: 'bash', sessionID: 's', callID: 'c' }, { args: { command: 'ls' } })`
  return run(process.execPath, ['--input-type=module', '--eval', tool === 'openclaw' ? claw : code])
}

/** Runs the command in the settings of a coding agent with a shell, like the agent. */
function call(tool: Tool) {
  if (tool === 'opencode' || tool === 'openclaw') return callPlugin(tool)
  const settings = JSON.parse(readFileSync(join(home, tools[tool].file), 'utf8'))
  const [entry] = settings.hooks.PreToolUse ?? settings.hooks.preToolUse ?? settings.hooks.BeforeTool
  const { command } = entry.hooks?.[0] ?? entry
  const event = { cursor: 'preToolUse', 'gemini-cli': 'BeforeTool' }[tool as string] ?? 'PreToolUse'
  const input = { hook_event_name: event, session_id: 's', cwd: home, tool_name: 'Bash', tool_input: { command: 'ls' } }
  return run(command, [], JSON.stringify(input))
}

describe('one key for all coding agents', { timeout: 120_000 }, () => {
  test('installs all of them, satisfies doctor, and reports their first calls', async () => {
    useSettings({ key: await newKey(), failMode: 'closed' })
    for (const tool of everyTool) {
      expect(await agent('install', tool, '--yes')).toMatchObject({ code: 0, stderr: '' })
      const status = await agent('status', tool)
      expect(status).toMatchObject({
        code: 0,
        stderr: '',
        stdout: expect.stringMatching(/^state +installed; no call yet$/m),
      })
    }
    const checks = await doctor()
    expect(checks.map(({ name, status }) => `${name}: ${status}`)).toEqual(
      everyTool.flatMap((tool) => [`hook of ${tools[tool].name}: ok`, `key of ${tools[tool].name}: ok`]),
    )
    const subagents = await doctor({}, /^subagents of /)
    expect(subagents.map(({ name, status }) => `${name}: ${status}`)).toEqual(
      everyTool.map((tool) => {
        const isSaid = ['claude-code', 'copilot-cli', 'openclaw'].includes(tool)
        return `subagents of ${tools[tool].name}: ${isSaid ? 'ok' : 'skip'}`
      }),
    )
    // The real hook, with policies of a fake service.
    const setup = await startCommand(['policy', 'check-setup', '--json'], {
      ...operator(),
      ...sources,
    }).ended
    expect(
      JSON.parse(setup.output).checks.map(({ name, status }: Report['checks'][number]) => `${name}: ${status}`),
    ).toEqual(
      everyTool.flatMap((tool) => [
        `policy of ${tools[tool].name}: ok`,
        // Of the others, a hook after each call would delay the agent.
        `flows of ${tools[tool].name}: ${tool === 'claude-code' ? 'ok' : 'warn'}`,
        `reach of ${tools[tool].name}: ok`,
      ]),
    )
    expect(setup.code).toBe(0)
    // None of them is a call, so no instance is registered.
    const before = await service.call<StatusView>('GET', '/api/status')
    expect(
      before.body.instances.filter(({ id }) =>
        /^(claude-code|codex|cursor|gemini-cli|copilot-cli|opencode|openclaw)-/.test(id),
      ),
    ).toEqual([])
    for (const tool of everyTool) {
      expect((await call(tool)).code).toBe(0)
      expect(await agent('status', tool)).toMatchObject({ code: 0, stdout: expect.stringMatching(/^state +active/m) })
    }
    const after = await service.call<StatusView>('GET', '/api/status')
    const own = after.body.instances.filter(({ id }) =>
      /^(claude-code|codex|cursor|gemini-cli|copilot-cli|opencode|openclaw)-/.test(id),
    )
    expect(own.map(({ status }) => status)).toEqual(everyTool.map(() => 'active'))
  })

  // A stub accepts any key: only the real service knows that this one allows every call.
  test.each<[string, RegExp, () => Promise<{ url?: string; key: string }>]>([
    [
      'revoked',
      /^127\.0\.0\.1:\d+ does not accept the key \w{8} of codex-\S+ \(401\)\. .*wardline keys create --scope agent /,
      async () => {
        const key = await newKey()
        expect((await wardline('keys', 'revoke', key.split('_')[2]!)).code).toBe(0)
        return { key }
      },
    ],
    [
      'bound to another instance',
      /does not allow the key \w{8} for the instance codex-\S+ \(403\).*wardline keys create --scope agent /,
      async () => ({ key: await newKey('create --scope agent --name other --instance claude-code-*') }),
    ],
    [
      'sent to a wrong address',
      /answers with 404/,
      async () => ({ url: `${service.baseUrl}/monitor`, key: await newKey() }),
    ],
  ])('is refused by install and found by doctor when it is %s', async (_case, says, settings) => {
    const wrong = await settings()
    useSettings(wrong)
    const refused = await agent('install', 'codex', '--yes')
    expect(refused).toMatchObject({ code: 1, stdout: '' })
    expect(refused.stderr).toMatch(/^wardline-agent: [^\n]* Nothing was written\.\n$/)
    expect(existsSync(join(home, '.codex'))).toBe(false)

    useSettings({ key: await newKey() })
    expect(await agent('install', 'codex', '--yes')).toMatchObject({ code: 0 })
    useSettings(wrong)
    const [hook, key, ...more] = await doctor()
    expect([hook?.status, key?.status, more]).toEqual(['ok', 'fail', []])
    expect(key?.detail).toMatch(says)
    expect(JSON.stringify([key, refused])).not.toContain(wrong.key)
    expect((await agent('status', 'codex')).code).toBe(4)
    // With `open` each call continues with a warning for the user; with `closed` none does.
    for (let calls = 0; calls < 2; calls++) {
      const { code, stdout } = await call('codex')
      expect([code, JSON.parse(stdout)]).toEqual([0, { systemMessage: expect.stringMatching(/\(40[13]\)|404/) }])
    }
    useSettings({ ...wrong, failMode: 'closed' } as typeof wrong)
    expect(await call('codex')).toMatchObject({ code: 2, stdout: '' })
  })
})

interface Configs {
  configs: { source: string; items: { name: string; ours?: boolean }[] }[]
}

// A hook that was removed does not run, so it reports nothing.
test('a hook that was removed is reported by doctor, once', { timeout: 120_000 }, async () => {
  const instance = 'removed-hook'
  const key = await newKey(`create --scope agent --name removed --instance ${instance}`)
  const file = join(home, '.config/wardline/agent.json')
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, JSON.stringify({ url: service.baseUrl, key, instanceId: instance }), { mode: 0o600 })
  expect(await agent('install', 'claude-code', '--yes')).toMatchObject({ code: 0 })
  const check = async () => (await doctor({}, /^settings of /)).map(({ name, status }) => `${name}: ${status}`)
  expect(await check()).toEqual(['settings of Claude Code: skip'])
  expect((await call('claude-code')).code).toBe(0)
  expect(await check()).toEqual(['settings of Claude Code: ok'])
  writeFileSync(join(home, tools['claude-code'].file), '{}')
  expect(await check()).toEqual(['settings of Claude Code: warn'])
  expect(await check()).toEqual(['settings of Claude Code: ok'])
  const path = `/api/events?event_type=agent_config_changed&instance_id=${instance}`
  const { body } = await service.call<{ events: { severity: string }[] }>('GET', path)
  expect(body.events.map(({ severity }) => severity)).toEqual(['critical'])
})

// A hook that is looked for in another folder would be taken for removed.
describe('install, hook, configuration and doctor find the same files', { timeout: 120_000 }, () => {
  const ordinary = Object.fromEntries(everyTool.map((tool) => [tool, tools[tool].file])) as Record<Tool, string>
  test.each<[string, Record<string, string>, Partial<Record<Tool, string>>]>([
    ['without variables', {}, ordinary],
    [
      'with the variables of the coding agents',
      {
        CLAUDE_CONFIG_DIR: 'moved/claude',
        CODEX_HOME: 'moved/codex',
        GEMINI_CLI_HOME: 'moved/gemini',
        COPILOT_HOME: 'moved/copilot',
        XDG_CONFIG_HOME: 'moved/config',
        OPENCLAW_STATE_DIR: 'moved/claw',
      },
      {
        'claude-code': 'moved/claude/settings.json',
        codex: 'moved/codex/hooks.json',
        cursor: ordinary.cursor,
        'gemini-cli': 'moved/gemini/.gemini/settings.json',
        'copilot-cli': 'moved/copilot/hooks/wardline.json',
        opencode: 'moved/config/opencode/plugins/wardline.js',
        openclaw: 'moved/claw/wardline.js',
      },
    ],
    [
      'with further variables of OpenClaw',
      { OPENCLAW_HOME: 'moved', OPENCLAW_CONFIG_PATH: 'elsewhere/claw.json' },
      { openclaw: 'moved/.openclaw/wardline.js' },
    ],
  ])('%s', async (name, variables, files) => {
    const instance = `files-${name.replaceAll(' ', '-').toLowerCase()}`
    const key = await newKey('create --scope agent --name files --instance files-*')
    const moved = Object.fromEntries(Object.entries(variables).map(([each, path]) => [each, join(home, path)]))
    const settings = join(moved.XDG_CONFIG_HOME ?? join(home, '.config'), 'wardline/agent.json')
    mkdirSync(dirname(settings), { recursive: true })
    writeFileSync(settings, JSON.stringify({ url: service.baseUrl, key, instanceId: instance }), { mode: 0o600 })
    const found = Object.keys(files) as Tool[]
    for (const tool of found) {
      expect(await agentWith(moved, ['install', tool, '--yes'])).toMatchObject({ code: 0, stderr: '' })
      expect(existsSync(join(home, files[tool]!)), tool).toBe(true)
      // The hooks of one instance take turns to report.
      for (const left of ['beat', 'config']) {
        const folder = join(home, '.local/state/wardline')
        for (const file of existsSync(folder) ? readdirSync(folder) : []) {
          if (file.endsWith(`.${left}`)) rmSync(join(folder, file))
        }
      }
      const event = { cursor: 'preToolUse', 'gemini-cli': 'BeforeTool' }[tool as string] ?? 'PreToolUse'
      const call = {
        hook_event_name: event,
        session_id: 's',
        cwd: home,
        tool_name: 'Bash',
        tool_input: { command: 'ls' },
      }
      expect(await agentWith(moved, ['hook', tool], JSON.stringify(call))).toMatchObject({ code: 0, stderr: '' })
    }
    const { body } = await service.call<Configs>('GET', `/api/instances/${instance}/config`)
    for (const tool of found) {
      const own = body.configs.filter(({ source }) => source === tool || source.startsWith(`${tool}:`))
      expect(
        own.map(({ items }) => items.some(({ ours }) => ours)),
        tool,
      ).toEqual([true])
    }
    const checks = await doctor(moved)
    expect(checks.map(({ name: each, status }) => `${each}: ${status}`)).toEqual(
      found.flatMap((tool) => [`hook of ${tools[tool].name}: ok`, `key of ${tools[tool].name}: ok`]),
    )
  })
})
