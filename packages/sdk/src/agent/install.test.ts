import { execFileSync, spawn } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readdirSync, readlinkSync, statSync, symlinkSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { AgentHome, ended, sample, startStranger } from '../testing/agent-command.ts'
import { agentId, TestFleet } from '../testing/service.ts'

const slow = { timeout: 60_000 }

const files = {
  'claude-code': '.claude/settings.json',
  codex: '.codex/hooks.json',
  cursor: '.cursor/hooks.json',
  'gemini-cli': '.gemini/settings.json',
  'copilot-cli': '.copilot/hooks/wardline.json',
} as const
const tools = Object.keys(files) as (keyof typeof files)[]

const program = fileURLToPath(new URL('../wardline-agent.ts', import.meta.url))

/** Whether other users may enter every parent folder. */
function isReachable(path: string): boolean {
  const folder = dirname(path)
  return (statSync(folder).mode & 0o001) !== 0 && (folder === path || isReachable(folder))
}

const backups = (home: AgentHome, folder = '.claude') =>
  readdirSync(home.path(folder)).filter((name) => name.endsWith('.bak'))

const foreign = `{
  "model": "opus",
  "env": {
    "API_KEY": "sk-live-0123456789abcdefXYZ"
  },
  "hooks": {
    "PreToolUse": [
      {
        "matcher": "Write",
        "hooks": [
          {
            "type": "command",
            "command": "prettier --check"
          }
        ]
      }
    ],
    "Stop": []
  },
  "futureSetting": {
    "kept": [
      1,
      2.5,
      null
    ]
  }
}
`

describe.each(tools)('install %s', slow, (tool) => {
  test('shows the change, writes it, and changes nothing when repeated', async () => {
    const home = new AgentHome()
    const first = await home.run(['install', tool, '--yes'])
    expect(first).toMatchObject({ code: 0, stderr: '' })
    expect(first.stdout).toContain(`hook ${tool}`)
    expect(first.stdout).toContain('written')
    const written = home.read(files[tool])
    expect(statSync(home.path(files[tool])).mode & 0o777).toBe(0o600)
    const second = await home.run(['install', tool, '--yes'])
    expect(second.stdout).toContain('already installed')
    expect(home.read(files[tool])).toBe(written)
    expect(backups(home, dirname(files[tool]))).toEqual([])
  })

  test('is undone by uninstall, byte for byte', async () => {
    const home = new AgentHome()
    const before = foreign.replace('"PreToolUse"', tool === 'cursor' ? '"beforeSubmitPrompt"' : '"PreToolUse"')
    const isVersioned = tool === 'cursor' || tool === 'copilot-cli'
    const text = isVersioned ? before.replace('{\n', '{\n  "version": 1,\n') : before
    home.write(files[tool], text)
    await home.run(['install', tool, '--yes'])
    expect(home.read(files[tool])).not.toBe(text)
    expect(JSON.parse(home.read(files[tool]))).toMatchObject({ model: 'opus', futureSetting: { kept: [1, 2.5, null] } })
    expect(await home.run(['uninstall', tool, '--yes'])).toMatchObject({ code: 0 })
    expect(home.read(files[tool])).toBe(text)
    expect((await home.run(['uninstall', tool, '--yes'])).stdout).toContain('not installed')
  })
})

describe('install', slow, () => {
  test('backs up the file for its owner only, and hides keys in its output', async () => {
    const home = new AgentHome()
    home.write(files['claude-code'], foreign.replaceAll('\n  ', '\n    '), 0o644)
    const { stdout } = await home.run(['install', 'claude-code', '--yes'])
    const [backup] = backups(home)
    expect(stdout).toContain(backup)
    expect(home.read(`.claude/${backup}`)).toBe(foreign.replaceAll('\n  ', '\n    '))
    expect(statSync(home.path('.claude', backup!)).mode & 0o777).toBe(0o600)
    expect(statSync(home.path(files['claude-code'])).mode & 0o777).toBe(0o644)
    expect(stdout).not.toContain('0123456789abcdefXYZ')
  })

  test('writes nothing with --dry-run, or without a terminal and --yes', async () => {
    const home = new AgentHome()
    home.write(files['claude-code'], foreign)
    const trial = await home.run(['install', 'claude-code', '--dry-run'])
    expect(trial).toMatchObject({ code: 0, stdout: expect.stringContaining('+ ') })
    const silent = await home.run(['install', 'claude-code'], 'y\n')
    expect(silent).toMatchObject({ code: 1, stderr: expect.stringContaining('Add --yes') })
    expect(home.read(files['claude-code'])).toBe(foreign)
    expect(backups(home)).toEqual([])
  })

  test('refuses settings that are not JSON, naming the position, and leaves them unchanged', async () => {
    const home = new AgentHome()
    const broken = foreign.replace('"opus",', '"opus" // mine\n')
    home.write(files['claude-code'], broken)
    const answer = await home.run(['install', 'claude-code', '--yes'])
    expect(answer).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringMatching(/settings\.json was not changed\. It is not JSON: line 2, column 19/),
    })
    expect(home.read(files['claude-code'])).toBe(broken)
    expect(backups(home)).toEqual([])
  })

  test('writes to the target of a linked settings file, and keeps the link', async () => {
    const home = new AgentHome()
    home.write('dotfiles/claude.json', foreign)
    mkdirSync(home.path('.claude'))
    symlinkSync(home.path('dotfiles/claude.json'), home.path(files['claude-code']))
    expect(await home.run(['install', 'claude-code', '--yes'])).toMatchObject({ code: 0 })
    expect(readlinkSync(home.path(files['claude-code']))).toBe(home.path('dotfiles/claude.json'))
    expect(home.read('dotfiles/claude.json')).toContain('wardline-agent')
  })

  test('reports an error if it cannot write, and changes nothing', async ({ skip }) => {
    const home = new AgentHome()
    home.write(files.codex, '{}', 0o644)
    chmodSync(home.folder, 0o755)
    chmodSync(home.path('.codex'), 0o555)
    // Root can write everywhere, so run as the user `nobody`.
    const isRoot = process.getuid?.() === 0
    if (isRoot && !isReachable(program)) skip('nobody but root can reach the sources')
    const child = spawn(process.execPath, [program, 'install', 'codex', '--yes'], {
      ...(isRoot ? { uid: 65534, gid: 65534 } : {}),
      env: { ...home.env, NODE_COMPILE_CACHE: '' },
    })
    expect(await ended(child)).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/cannot be written \(EACCES\)\. It was not changed\./),
    })
    expect(home.read(files.codex)).toBe('{}')
    expect(readdirSync(home.path('.codex'))).toEqual(['hooks.json'])
  })

  test('reports an error if the settings folder is a file', async () => {
    const home = new AgentHome()
    home.write('.codex', 'a file')
    expect(await home.run(['install', 'codex', '--yes'])).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/\((ENOTDIR|EEXIST)\)/),
    })
  })

  test('writes to the configured folder, or to the project with --project', async () => {
    const home = new AgentHome()
    const elsewhere = home.path('elsewhere')
    await home.run(['install', 'claude-code', '--yes', '--fail-closed'], '', { CLAUDE_CONFIG_DIR: elsewhere })
    expect(home.read('elsewhere/settings.json')).toContain('hook claude-code --fail-closed')
    expect(existsSync(home.path('.claude'))).toBe(false)
    const project = new AgentHome()
    await project.run(['install', 'cursor', '--project', '--yes'], '', { HOME: elsewhere })
    expect(project.read('.cursor/hooks.json')).toContain('hook cursor')
  })

  test('prints missing settings and remaining steps', async () => {
    const home = new AgentHome()
    expect((await home.run(['install', 'codex', '--yes'])).stdout).toMatch(/\/hooks[\s\S]*cannot work yet/)
    home.env = { ...home.env, WARDLINE_URL: 'http://127.0.0.1:1', WARDLINE_KEY: 'k', WARDLINE_INSTANCE_ID: 'mine' }
    expect((await home.run(['install', 'claude-code', '--yes'])).stdout).toContain('reported as mine')
  })

  test.each([
    [['install']],
    [['install', 'vim']],
    [['install', 'codex', '--force']],
    [['uninstall', 'codex', '--fail-closed']],
    [['mcp-proxy', 'server']],
    [['mcp-proxy', '--']],
    [['status', 'vim']],
    [[]],
  ])('and other commands refuse a wrong command line: %j', async (args) => {
    expect(await new AgentHome().run(args)).toMatchObject({
      code: 64,
      stdout: '',
      stderr: expect.stringContaining('--help'),
    })
  })
})

describe('with the key from the guide', slow, () => {
  let fleet: TestFleet
  let key: string
  beforeAll(async () => {
    fleet = await TestFleet.open()
    key = await fleet.createKey([
      'claude-code-*',
      'codex-*',
      'cursor-*',
      'gemini-cli-*',
      'copilot-cli-*',
      'opencode-*',
      'openclaw-*',
    ])
  }, 60_000)
  afterAll(() => fleet[Symbol.asyncDispose]())

  const newHome = (env: Record<string, string> = {}) =>
    new AgentHome({ WARDLINE_URL: fleet.wire.url, WARDLINE_KEY: key, ...env })

  test.each([...tools, 'opencode', 'openclaw'])(
    '%s is installed without a call at first, and active after its first call',
    async (tool) => {
      const home = newHome()
      const installed = await home.run(['install', tool, '--yes'])
      expect(installed).toMatchObject({ code: 0, stderr: '' })
      expect(installed.stdout).toContain(`Calls are reported as ${tool}-`)
      expect(installed.stdout).not.toContain('not checked')
      const waiting = await home.run(['status', tool])
      expect(waiting).toMatchObject({ code: 0, stderr: '', stdout: expect.stringContaining('installed; no call yet') })
      expect(waiting.stdout).not.toContain('not installed')
      const { code } = await home.hook([tool, '--fail-closed'], sample('claude-code.PreToolUse.Bash.agent-sdk-0.3.330'))
      expect(code).toBe(0)
      expect(await home.run(['status', tool])).toMatchObject({
        code: 0,
        stdout: expect.stringContaining('active, version 0'),
      })
    },
  )

  // A hook with such settings would allow every call, or block every call.
  const refused: Record<string, [says: RegExp, env: () => Promise<Record<string, string>> | Record<string, string>]> = {
    'a key that is not valid': [
      /127\.0\.0\.1:\d+ does not accept the key abcd1234 of codex-\S+ \(401\)\. .*wardline keys create --scope agent .*--instance 'codex-\*'/,
      () => ({ WARDLINE_KEY: `wl_agent_abcd1234_${'s'.repeat(43)}_000000` }),
    ],
    'a key of another instance': [
      /does not allow the key \w{8} for the instance codex-\S+ \(403\).*--instance 'codex-\*'/,
      () => ({ WARDLINE_KEY: fleet.agentKey }),
    ],
    'an instance that the key does not cover': [
      /for the instance build-7 \(403\).*--name build-7 --instance build-7/,
      () => ({ WARDLINE_INSTANCE_ID: 'build-7' }),
    ],
    'a key that may only read': [
      /does not allow the key \w{8} .*\(403\)/,
      async () => ({ WARDLINE_KEY: await fleet.createViewerKey() }),
    ],
    'an address that leads to something else': [
      /answers with 404/,
      async () => ({ WARDLINE_URL: await startStranger(404, '<html>') }),
    ],
    'an address where everything is 200': [
      /no version/,
      async () => ({ WARDLINE_URL: await startStranger(200, '<html>') }),
    ],
  }
  test.each(Object.entries(refused))(
    'install refuses %s in one line, and writes nothing',
    async (_case, [says, env]) => {
      const home = newHome(await env())
      const answer = await home.run(['install', 'codex', '--yes'])
      expect(answer).toMatchObject({ code: 1, stdout: '', stderr: expect.stringMatching(says) })
      expect(answer.stderr).toMatch(/^wardline-agent: [^\n]+ Nothing was written\.\n$/)
      expect(answer.stderr).not.toContain('s'.repeat(43))
      expect(existsSync(home.path('.codex'))).toBe(false)
      const status = await home.run(['status', 'codex'])
      expect(status).toMatchObject({ code: 4, stderr: expect.stringMatching(says) })
    },
  )

  test('a hook is installed while the service is unreachable, with a note that its key was not checked', async () => {
    const home = newHome({ WARDLINE_URL: 'http://127.0.0.1:1' })
    const { code, stdout } = await home.run(['install', 'cursor', '--yes'])
    expect([code, stdout]).toEqual([
      0,
      expect.stringMatching(/The key was not checked\. No answer from 127\.0\.0\.1:1/),
    ])
    expect(home.read('.cursor/hooks.json')).toContain('hook cursor')
  })
})

test('the installed command runs in a shell, and blocks a suspended agent', slow, async () => {
  await using fleet = await TestFleet.open()
  const home = new AgentHome({
    WARDLINE_URL: fleet.wire.url,
    WARDLINE_KEY: fleet.agentKey,
    WARDLINE_INSTANCE_ID: agentId,
  })
  await home.run(['install', 'claude-code', '--yes', '--fail-closed'])
  const { command } = JSON.parse(home.read(files['claude-code'])).hooks.PreToolUse[0].hooks[0]
  const input = JSON.stringify(sample('claude-code.PreToolUse.Bash.agent-sdk-0.3.330'))
  const ask = () => {
    const child = spawn(command, { shell: true, cwd: '/', env: home.env })
    child.stdin.end(input)
    return ended(child)
  }
  expect(await ask()).toMatchObject({ code: 0, stdout: '', stderr: '' })
  await fleet.kill('exfiltration')
  expect(await ask()).toMatchObject({ code: 2, stderr: expect.stringContaining('suspended (exfiltration)') })
})

test('--help lists the commands, --version prints the version, status the known state', slow, async () => {
  await using fleet = await TestFleet.open()
  const home = new AgentHome({
    WARDLINE_URL: fleet.wire.url,
    WARDLINE_KEY: fleet.agentKey,
    WARDLINE_INSTANCE_ID: agentId,
  })
  const help = await home.run(['--help'])
  for (const word of ['install', 'uninstall', 'status', 'hook', 'mcp-proxy', 'WARDLINE_FAIL_MODE', 'Exit codes'])
    expect(help.stdout).toContain(word)
  expect((await home.run(['--version'])).stdout).toMatch(/^\d+\.\d+\.\d+\n$/)
  expect(await home.run(['status'])).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('not installed; no call yet'),
  })
  await home.hook(['claude-code'], sample('claude-code.PreToolUse.Bash.agent-sdk-0.3.330'))
  expect(await home.run(['status'])).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/agent-1[\s\S]*active, version 0/),
  })
  await fleet.kill('exfiltration')
  expect(await home.run(['status'])).toMatchObject({
    code: 3,
    stdout: expect.stringContaining('suspended (exfiltration), version 1'),
  })
  await home.hook(['claude-code'], sample('claude-code.PreToolUse.Bash.agent-sdk-0.3.330'))
  fleet.wire.mode = 'refuse'
  // Without an answer, status shows the last known state.
  expect(await home.run(['status'])).toMatchObject({
    code: 3,
    stdout: expect.stringContaining('version 1, as last reported'),
  })
  expect(await home.run(['status'], '', { HOME: '/nowhere' })).toMatchObject({
    code: 4,
    stderr: expect.stringContaining('No answer'),
  })
  expect(await home.run(['status'], '', { WARDLINE_KEY: '' })).toMatchObject({ code: 78 })
})

// Uses a real terminal, created by the program `script`.
test('asks for confirmation on a terminal, and continues only on yes', slow, async ({ skip }) => {
  try {
    execFileSync('script', ['--version'])
  } catch {
    skip('there is no program "script" to make a terminal with')
  }
  const home = new AgentHome()
  const answer = async (text: string) => {
    const child = spawn('script', ['-qec', `'${process.execPath}' '${program}' install codex`, '/dev/null'], {
      env: home.env,
    })
    child.stdout.on('data', (shown) => {
      if (String(shown).includes('[y/N]')) child.stdin.write(text)
    })
    return ended(child)
  }
  expect(await answer('n\r')).toMatchObject({ code: 1, stdout: expect.stringContaining('Nothing was written.') })
  expect(existsSync(home.path(files.codex))).toBe(false)
  expect(await answer('y\r')).toMatchObject({ code: 0 })
  expect(home.read(files.codex)).toContain('wardline-agent')
})
