import { readFileSync, realpathSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { AgentHome } from '../testing/agent-command.ts'
import type { CodingTool } from './agent-settings.ts'
import { type Item, readConfiguration } from './configuration.ts'
import { hookCommand } from './hook-command.ts'
import { type JsonTool, withHook } from './hook-entries.ts'
import { withPlugin } from './openclaw-config.ts'
import { pluginText } from './plugin-text.ts'

const key = 'wl_agent_0abcdefg_the-key-of-the-tests'

const read = (home: AgentHome, tool: CodingTool, hashKey = key) =>
  readConfiguration({ tool, env: {}, key: hashKey, home: home.folder, project: home.path('project') })
/** Of the user. */
const itemsOf = (home: AgentHome, tool: CodingTool): Item[] => read(home, tool)[0]!.items
/** Of the user, and of the folder `project`. */
const allOf = (home: AgentHome, tool: CodingTool): Item[] => read(home, tool).flatMap(({ items }) => items)

const hashes = (items: readonly Item[]) => new Map(items.map(({ kind, name, sha256 }) => [`${kind} ${name}`, sha256]))

/** Returns a home folder with the hook as `install` writes it, and its settings. */
function installed(tool: JsonTool, file: string, text = '') {
  const home = new AgentHome()
  const settings = JSON.parse(withHook(text, tool, hookCommand(tool, false)))
  const write = () => home.write(file, settings)
  write()
  return { home, settings, write }
}

test('names the entries of the settings of Claude Code', () => {
  const home = new AgentHome()
  home.write('.claude/settings.json', {
    model: 'opus',
    permissions: { allow: ['Bash(ls)'], defaultMode: 'plan' },
    env: { A: 'b' },
    hooks: { PreToolUse: [{ matcher: 'Bash', hooks: [{ type: 'command', command: 'one' }, { command: 'two' }] }] },
    enabledPlugins: { 'review@market': true },
  })
  home.write('.claude.json', {
    numStartups: 7,
    mcpServers: { db: { command: '/usr/bin/npx', args: ['-y', '@scope/server@1.2.3', '/srv'] } },
    projects: {
      [home.path('project')]: { history: ['x'], mcpServers: { web: { url: 'https://mcp.example.com/v1?k=1' } } },
    },
  })
  home.write('project/.claude/settings.local.json', { permissions: { deny: [] } })
  home.write('project/.mcp.json', {
    mcpServers: {
      files: { command: 'wardline-agent', args: ['mcp-proxy', '--', 'uvx', '--from', 'files==2.0', 'run'] },
    },
  })
  home.write('.claude/CLAUDE.md', 'Be kind.')
  home.write('project/CLAUDE.md', 'Use tabs.')
  home.write('.claude/skills/review/SKILL.md', '# Review')
  home.write('project/.claude/agents/tester.md', '# Test')
  const [user, project] = read(home, 'claude-code').map(({ source, items }) => ({
    source,
    shown: items
      .map(({ kind, name, command, address, version }) =>
        [kind, name, command ?? address, version].filter(Boolean).join(' · '),
      )
      .sort(),
  }))
  expect(user).toEqual({
    source: 'claude-code',
    shown: [
      'hook · settings.json PreToolUse Bash',
      'hook · settings.json PreToolUse Bash (2)',
      'instructions · CLAUDE.md',
      'permission · settings.json env',
      'permission · settings.json permissions allow',
      'permission · settings.json permissions defaultMode',
      'plugin · settings.json review@market',
      'server · db · npx @scope/server · 1.2.3',
      'skill · review',
    ],
  })
  expect(project).toEqual({
    source: expect.stringMatching(/^claude-code:project-[a-z0-9]{7}$/),
    shown: [
      'hook · in this folder',
      'instructions · .claude/agents/tester.md',
      'instructions · CLAUDE.md',
      'permission · .claude/settings.local.json permissions deny',
      'server · files · uvx files · 2.0',
      'server · web · https://mcp.example.com/v1',
    ],
  })
  for (const { sha256 } of allOf(home, 'claude-code')) expect(sha256).toMatch(/^[0-9a-f]{64}$/)
})

test.each<[CodingTool, Record<string, unknown>, string[]]>([
  [
    'codex',
    { '.codex/config.toml': 'model = "x"', '.codex/AGENTS.md': 'a', 'project/AGENTS.md': 'b' },
    ['permission config.toml', 'instructions AGENTS.md', 'instructions AGENTS.md'],
  ],
  [
    'cursor',
    {
      '.cursor/mcp.json': { mcpServers: { db: { command: 'node', args: ['/srv/db.mjs'] } } },
      'project/.cursor/rules/style.mdc': 'a',
      '.cursor/cli-config.json': { authInfo: {}, permissions: { allow: [] } },
    },
    ['server db', 'permission cli-config.json permissions allow', 'instructions .cursor/rules/style.mdc'],
  ],
  [
    'gemini-cli',
    { '.gemini/settings.json': { ui: {}, tools: { sandbox: true } }, 'project/GEMINI.md': 'a' },
    ['permission settings.json tools', 'instructions GEMINI.md'],
  ],
  [
    'copilot-cli',
    {
      '.copilot/hooks/a.json': { hooks: { PreToolUse: [{ command: 'x' }] } },
      '.copilot/mcp-config.json': { mcpServers: { db: {} } },
    },
    ['hook hooks/a.json PreToolUse', 'server db'],
  ],
  [
    'opencode',
    { '.config/opencode/opencode.json': { mcp: { db: { command: ['npx', 'server'] } }, permission: { bash: 'ask' } } },
    ['server db', 'permission opencode.json permission'],
  ],
  [
    'openclaw',
    { '.openclaw/openclaw.json': { plugins: { entries: {} }, meta: { lastTouchedVersion: '2026.9.6' } } },
    ['permission openclaw.json plugins'],
  ],
])('names the entries of %s', (tool, files, names) => {
  const home = new AgentHome()
  for (const [name, content] of Object.entries(files)) home.write(name, content)
  const found = allOf(home, tool).map(({ kind, name }) => `${kind} ${name}`)
  expect(found.filter((name) => name !== 'hook in this folder').sort()).toEqual([...names].sort())
})

// A server at the address of the service, or a person who reads the report, would have them.
const secret = 'hunter2SECRETqX7vB9'
/** A secret that looks like a word is not detected anywhere, so its place must not be read. */
const word = 'swordfish'
test.each<[string, unknown]>([
  ['environment', { command: 'npx', args: ['-y', 'server'], env: { TOKEN: secret } }],
  ['argument', { command: 'npx', args: ['-y', 'server', '--token', secret] }],
  ['argument before the package', { command: 'npx', args: ['--token', secret, 'server'] }],
  ['argument with its flag', { command: 'npx', args: [`--token=${secret}`, 'server'] }],
  ['package at an address', { command: 'npx', args: ['-y', `https://user:${secret}@example.com/x.tgz`] }],
  ['script with an argument', { command: 'node', args: ['server.js', secret] }],
  ['argument of node', { command: 'node', args: ['-e', secret] }],
  ['argument of a container', { command: 'docker', args: ['run', '-e', `TOKEN=${secret}`, 'image'] }],
  ['line in the command', { command: `sh -c "curl https://example.com/${secret}"` }],
  ['assignment in the command', { command: `TOKEN=${secret}` }],
  ['list as the command', { command: ['npx', '--token', secret] }],
  ['program of env', { command: 'env', args: [`TOKEN=${secret}`, 'npx', 'server'] }],
  ['argument of cmd', { command: 'cmd', args: ['/c', 'npx', '--token', secret] }],
  ['header', { url: 'https://example.com/mcp', headers: { Authorization: `Bearer ${secret}` } }],
  ['query', { url: `https://example.com/mcp?key=${secret}` }],
  ['userinfo', { url: `https://user:${secret}@example.com/mcp` }],
  ['fragment', { url: `https://example.com/mcp#${secret}` }],
  ['path', { url: `https://example.com/s/${secret}/mcp` }],
  ['address without a host', { url: `data:text/plain,${secret}` }],
  ['version', { command: 'npx', args: [`server@${secret}`] }],
])('never reports a secret: %s', (place, server) => {
  const home = new AgentHome()
  home.write('.claude.json', { mcpServers: { db: server } })
  home.write('.claude/settings.json', {
    apiKeyHelper: secret,
    env: { TOKEN: secret },
    permissions: { allow: [`Bash(curl -H ${secret})`] },
    hooks: { PreToolUse: [{ matcher: `Bash(${secret})`, hooks: [{ type: 'command', command: `curl ${secret}` }] }] },
    statusLine: { command: secret },
  })
  home.write('.claude/CLAUDE.md', secret)
  const text = JSON.stringify(itemsOf(home, 'claude-code'))
  expect(text).toContain('"db"')
  expect(text).not.toContain(secret.slice(0, 10))
  if (place === 'path') return
  home.write('.claude.json', JSON.stringify({ mcpServers: { db: server } }).replaceAll(secret, word))
  expect(JSON.stringify(itemsOf(home, 'claude-code'))).not.toContain(word)
})

test('hashes with the key, so that a short secret cannot be guessed', () => {
  const home = new AgentHome()
  home.write('.claude/CLAUDE.md', '1234')
  const [one, other] = [key, `${key}x`].map((each) => read(home, 'claude-code', each)[0]!.items[0])
  expect(one?.sha256).not.toBe(other?.sha256)
})

test('neither the order of keys nor whitespace is a change, a value is', () => {
  const home = new AgentHome()
  const read = (text: string) => {
    home.write('.claude/settings.json', text)
    return hashes(itemsOf(home, 'claude-code'))
  }
  const before = read('{"env":{"A":"1","B":{"C":[1,2],"D":null}},"sandbox":{"x":true}}')
  expect(read('\ufeff{ "sandbox" : {"x":true},\n"env":{"B":{"D":null,"C":[1,2]},"A":"1"}}\n')).toEqual(
    new Map([...before].reverse()),
  )
  expect(before.size).toBe(2)
  expect(read('{"env":{"A":"1","B":{"C":[2,1],"D":null}},"sandbox":{"x":true}}')).not.toEqual(before)
})

const files: Record<JsonTool, string> = {
  'claude-code': '.claude/settings.json',
  codex: '.codex/hooks.json',
  cursor: '.cursor/hooks.json',
  'gemini-cli': '.gemini/settings.json',
  'copilot-cli': '.copilot/hooks/wardline.json',
}
const ours = (items: readonly Item[]) => items.filter((item) => item.ours)

test.each(Object.entries(files) as [JsonTool, string][])('marks the whole hook of %s as ours', (tool, file) => {
  const { home, settings, write } = installed(tool, file)
  const [before, ...others] = ours(itemsOf(home, tool))
  expect(before).toMatchObject({ kind: 'hook', name: expect.stringMatching(/tool(use)? wardline$/i) })
  expect(others).toEqual([])
  // Other paths, as after an update of Node.js.
  const node = home.write('other/node', '')
  const copy = home.write('other/wardline-agent.js', readFileSync(process.argv[1]!, 'utf8'))
  const moved = JSON.stringify(settings).replaceAll(process.execPath, node)
  Object.assign(settings, JSON.parse(moved.replaceAll(realpathSync(process.argv[1]!), copy)))
  write()
  expect(ours(itemsOf(home, tool))).toEqual([before])
})

test('marks the plugin of OpenCode as ours while it is whole', () => {
  const home = new AgentHome()
  for (const [tool, folder, name] of [
    ['opencode', '.config/opencode', 'plugins/wardline.js'],
    ['openclaw', '.openclaw', 'wardline.js'],
  ] as const) {
    const text = pluginText(tool, hookCommand(tool, false))
    const file = home.write(`${folder}/${name}`, text)
    if (tool === 'openclaw') home.write('.openclaw/openclaw.json', withPlugin(null, realpathSync(file)))
    expect(ours(itemsOf(home, tool))).toMatchObject([{ kind: 'hook', name }])
    home.write(`${folder}/${name}`, text.replace('code === 0', 'code !== 2'))
    expect(ours(itemsOf(home, tool))).toEqual([])
  }
})

type Settings = { hooks: Record<string, Record<string, unknown>[]>; [name: string]: unknown }
const hookOf = ({ hooks }: Settings, event: string) => (hooks[event]![0]!.hooks as Record<string, unknown>[])[0]!

// An agent that writes its settings would disable the check of its calls, and remain unnoticed.
test.each<[string, JsonTool, (settings: Settings, home: AgentHome) => void]>([
  ['its event is removed', 'claude-code', ({ hooks }) => delete hooks.PreToolUse],
  [
    'it moves to another event',
    'claude-code',
    ({ hooks }) => {
      hooks.PostToolUse = hooks.PreToolUse!
      delete hooks.PreToolUse
    },
  ],
  ['it matches one tool', 'claude-code', ({ hooks }) => Object.assign(hooks.PreToolUse![0]!, { matcher: 'Read' })],
  [
    'a condition is added',
    'claude-code',
    (settings) => Object.assign(hookOf(settings, 'PreToolUse'), { if: 'Bash(ls)' }),
  ],
  ['a failure lets the call pass', 'claude-code', (settings) => delete hookOf(settings, 'PreToolUse').onFailure],
  [
    'it runs in the background',
    'claude-code',
    (settings) => Object.assign(hookOf(settings, 'PreToolUse'), { async: true }),
  ],
  ['its time is short', 'claude-code', (settings) => Object.assign(hookOf(settings, 'PreToolUse'), { timeout: 0.001 })],
  [
    'its command is a comment',
    'claude-code',
    (settings) =>
      Object.assign(hookOf(settings, 'PreToolUse'), { command: `true # ${hookCommand('claude-code', false)}` }),
  ],
  [
    'its command names it',
    'claude-code',
    (settings) => Object.assign(hookOf(settings, 'PreToolUse'), { command: 'true # wardline-agent hook' }),
  ],
  [
    'its command ignores the answer',
    'claude-code',
    (settings) =>
      Object.assign(hookOf(settings, 'PreToolUse'), { command: `${hookCommand('claude-code', false)} || true` }),
  ],
  [
    'its Node.js is another program',
    'claude-code',
    (settings) =>
      Object.assign(hookOf(settings, 'PreToolUse'), { command: hookCommand('claude-code', false, '/bin/true') }),
  ],
  [
    'its Node.js does not exist',
    'claude-code',
    (settings) =>
      Object.assign(hookOf(settings, 'PreToolUse'), { command: hookCommand('claude-code', false, '/nowhere/node') }),
  ],
  [
    'its program is another one',
    'claude-code',
    (settings, home) => {
      const other = home.write('other/wardline-agent.js', '')
      const command = hookCommand('claude-code', false).replace(realpathSync(process.argv[1]!), other)
      Object.assign(hookOf(settings, 'PreToolUse'), { command })
    },
  ],
  [
    'it is for another coding agent',
    'claude-code',
    (settings) => Object.assign(hookOf(settings, 'PreToolUse'), { command: hookCommand('codex', false) }),
  ],
  ['all hooks are disabled', 'claude-code', (settings) => Object.assign(settings, { disableAllHooks: true })],
  [
    'a project disables all hooks',
    'claude-code',
    (_settings, home) => void home.write('project/.claude/settings.local.json', { disableAllHooks: true }),
  ],
  ['its settings are a list', 'claude-code', (settings, home) => void home.write('.claude/settings.json', [settings])],
  [
    'hooks are disabled',
    'codex',
    (_settings, home) => void home.write('.codex/config.toml', 'model = "x"\n[features]\nhooks = false\n'),
  ],
  [
    'a project disables hooks',
    'codex',
    (_settings, home) => void home.write('project/.codex/config.toml', 'features = { a = "#", "codex_hooks" = false }'),
  ],
  ['it matches one tool', 'codex', ({ hooks }) => Object.assign(hooks.PreToolUse![0]!, { matcher: 'Bash' })],
  ['a failure lets the call pass', 'cursor', ({ hooks }) => delete hooks.preToolUse![0]!.failClosed],
  ['it matches one tool', 'cursor', ({ hooks }) => Object.assign(hooks.preToolUse![0]!, { matcher: 'Shell' })],
  ['its file has no version', 'cursor', (settings) => delete settings.version],
  ['hooks are disabled', 'gemini-cli', (settings) => Object.assign(settings, { hooksConfig: { enabled: false } })],
  [
    'it is disabled by name',
    'gemini-cli',
    (settings) => Object.assign(settings, { hooksConfig: { disabled: ['wardline'] } }),
  ],
  ['it matches one tool', 'gemini-cli', ({ hooks }) => Object.assign(hooks.BeforeTool![0]!, { matcher: 'read_file' })],
  [
    'all hooks are disabled',
    'copilot-cli',
    (_settings, home) => void home.write('.copilot/settings.json', { disableAllHooks: true }),
  ],
  [
    'its file begins with a byte order mark',
    'codex',
    (settings, home) => void home.write('.codex/hooks.json', `\ufeff${JSON.stringify(settings)}`),
  ],
  ['its time is short', 'copilot-cli', ({ hooks }) => Object.assign(hooks.PreToolUse![0]!, { timeoutSec: 0 })],
])('the hook is not ours when %s (%s)', (_how, tool, weaken) => {
  const { home, settings, write } = installed(tool, files[tool])
  const before = hashes(allOf(home, tool))
  // The hook, and that the folder lets it run.
  expect(ours(allOf(home, tool))).toHaveLength(2)
  weaken(settings, { ...home, write: home.write.bind(home) } as AgentHome)
  if (!/^[\ufeff[]/.test(home.read(files[tool]))) write()
  const after = allOf(home, tool)
  expect(ours(after)).toHaveLength(1)
  expect(hashes(after)).not.toEqual(before)
})

test('another hook in the same group leaves ours whole', () => {
  const { home, settings, write } = installed('claude-code', files['claude-code'])
  settings.hooks.PreToolUse[0].hooks.unshift({ type: 'command', command: 'date' })
  write()
  expect(ours(itemsOf(home, 'claude-code'))).toHaveLength(1)
})

test('the plugin of OpenClaw is not ours when its configuration does not load it', () => {
  const home = new AgentHome()
  const file = home.write('.openclaw/wardline.js', pluginText('openclaw', hookCommand('openclaw', false)))
  expect(ours(itemsOf(home, 'openclaw'))).toEqual([])
  const config = JSON.parse(withPlugin(null, realpathSync(file)))
  // Where OPENCLAW_CONFIG_PATH says, as for `install`.
  const env = { OPENCLAW_CONFIG_PATH: home.write('elsewhere/claw.json', config) }
  const items = () => readConfiguration({ tool: 'openclaw', env, key, home: home.folder, project: undefined })[0]!.items
  expect(ours(items())).toHaveLength(1)
  expect(items().map(({ name }) => name)).toContain('openclaw.json plugins')
  config.plugins.entries.wardline.enabled = false
  home.write('elsewhere/claw.json', config)
  expect(ours(items())).toEqual([])
})

// Otherwise two profiles would undo each other's report for ever.
test('a moved folder of settings is a separate source', () => {
  const home = new AgentHome()
  const sourceWith = (env: Record<string, string>) =>
    readConfiguration({ tool: 'claude-code', env, key, home: home.folder, project: undefined })[0]!.source
  expect(sourceWith({})).toBe('claude-code')
  expect(sourceWith({ CLAUDE_CONFIG_DIR: home.path('.claude') })).toBe('claude-code')
  expect(sourceWith({ CLAUDE_CONFIG_DIR: home.path('work') })).toMatch(/^claude-code:work-[a-z0-9]{7}$/)
})

describe('the settings of administrators', () => {
  const command = hookCommand('claude-code', false)
  const hooked = JSON.parse(withHook('', 'claude-code', command))
  /** Returns the items of the user and of the folder, with the hook in the settings of the user. */
  function itemsWith(managed: Record<string, unknown>, user: object = hooked) {
    const home = new AgentHome()
    home.write('.claude/settings.json', user)
    for (const [name, content] of Object.entries(managed)) home.write(`managed/${name}`, content)
    return readConfiguration({
      tool: 'claude-code',
      env: {},
      key,
      home: home.folder,
      project: home.path('project'),
      managed: home.path('managed'),
    }).map(({ items }) => items)
  }

  test('are part of the configuration', () => {
    const [user] = itemsWith({
      'managed-settings.json': { permissions: { deny: ['Bash'] } },
      'managed-settings.d/20-hooks.json': { hooks: { Stop: [{ hooks: [{ type: 'command', command: 'date' }] }] } },
      'managed-settings.d/.hidden.json': { permissions: { allow: ['Bash'] } },
    })
    expect(user!.map(({ kind, name }) => `${kind} ${name}`)).toEqual(
      expect.arrayContaining([
        'permission managed-settings.json permissions deny',
        'hook managed-settings.d/20-hooks.json Stop',
      ]),
    )
    expect(JSON.stringify(user)).not.toContain('hidden')
    expect(ours(user!)).toHaveLength(1)
  })

  test.each<[string, Record<string, unknown>, object, number]>([
    ['that disable hooks', { 'managed-settings.json': { disableAllHooks: true } }, hooked, 0],
    ['that run only their own', { 'managed-settings.json': { allowManagedHooksOnly: true } }, hooked, 0],
    [
      'that run only their own, in a later file',
      { 'managed-settings.d/a.json': { allowManagedHooksOnly: true } },
      hooked,
      0,
    ],
    [
      'with a later file that runs all',
      {
        'managed-settings.json': { allowManagedHooksOnly: true },
        'managed-settings.d/a.json': { allowManagedHooksOnly: false },
      },
      hooked,
      1,
    ],
    ['with our hook', { 'managed-settings.json': { ...hooked, allowManagedHooksOnly: true } }, {}, 1],
    ['with our hook, which a user cannot disable', { 'managed-settings.json': hooked }, { disableAllHooks: true }, 1],
    ['with our hook, disabled', { 'managed-settings.json': { ...hooked, disableAllHooks: true } }, {}, 0],
  ])('%s', (_what, managed, user, count) => {
    expect(ours(itemsWith(managed, user)[0]!)).toHaveLength(count)
  })

  test('with our hook, which a folder cannot disable', () => {
    const home = new AgentHome()
    home.write('managed/managed-settings.json', hooked)
    home.write('project/.claude/settings.json', { disableAllHooks: true })
    const place = { tool: 'claude-code', env: {}, key, home: home.folder, project: home.path('project') } as const
    const [, folder] = readConfiguration({ ...place, managed: home.path('managed') })
    expect(ours(folder!.items)).toHaveLength(1)
    expect(ours(readConfiguration({ ...place, managed: home.path('none') })[1]!.items)).toEqual([])
  })
})
