import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { AgentHome } from '../testing/agent-command.ts'
import type { CodingTool } from './agent-settings.ts'
import { install, uninstall } from './install.ts'

const seed = 20261122
const folder = mkdtempSync(join(tmpdir(), 'wardline-uninstall-'))
const [node, script] = process.argv
beforeAll(() => {
  // The hook command uses the program that is running.
  process.argv[1] = fileURLToPath(new URL('../wardline-agent.ts', import.meta.url))
})
afterAll(() => {
  process.argv.splice(0, 2, node!, script!)
  rmSync(folder, { recursive: true })
})

const env = { CLAUDE_CONFIG_DIR: join(folder, 'claude'), CODEX_HOME: join(folder, 'codex'), XDG_STATE_HOME: folder }
const files = { 'claude-code': join(folder, 'claude', 'settings.json'), codex: join(folder, 'codex', 'hooks.json') }
type Tool = keyof typeof files

const request = (tool: CodingTool, failClosed = false) => ({
  tool,
  failClosed,
  inProject: false,
  yes: true,
  dryRun: false,
  env: { ...env, WARDLINE_URL: '', HOME: folder },
  ask: undefined,
  say: () => {},
})

/** Writes the file; undefined removes it. */
function put(tool: Tool, text: string | undefined): void {
  rmSync(dirname(files[tool]), { recursive: true, force: true })
  if (text === undefined) return
  mkdirSync(dirname(files[tool]), { recursive: true })
  writeFileSync(files[tool], text)
}
/** Two backups within the same millisecond would have the same name. */
function dropBackups(): void {
  for (const file of Object.values(files)) {
    const names = existsSync(dirname(file)) ? readdirSync(dirname(file)) : []
    for (const name of names.filter((name) => name.endsWith('.bak'))) rmSync(join(dirname(file), name))
  }
}
const add = (tool: Tool, failClosed = false) => install(request(tool, failClosed)).then(dropBackups)
const remove = (tool: Tool) => uninstall(request(tool)).then(dropBackups)
const read = (tool: Tool) => (existsSync(files[tool]) ? readFileSync(files[tool], 'utf8') : undefined)

const entries = fc.array(fc.oneof(fc.jsonValue(), fc.constant({ hooks: [{ command: 'say done' }] })), { maxLength: 2 })
const settings = fc
  .tuple(
    fc.dictionary(fc.string(), fc.jsonValue(), { maxKeys: 3 }),
    fc.option(fc.dictionary(fc.constantFrom('PreToolUse', 'Stop', '7'), entries), { nil: undefined }),
  )
  .map(([others, hooks]) => ({ ...others, ...(hooks ? { hooks } : {}) }))
  .filter(({ hooks = {} }: { hooks?: unknown }) => typeof hooks === 'object' && !Array.isArray(hooks))
  .filter(({ hooks }: { hooks?: unknown }) =>
    Object.entries(hooks ?? {}).every(([event, list]) => event !== 'PreToolUse' || Array.isArray(list)),
  )
/** A file as it may exist before: missing, blank, or JSON in any format. */
const files0 = fc.oneof(
  fc.constantFrom(
    undefined,
    '',
    '\n',
    '{}',
    '{ }',
    ' {\n}\r\n',
    '{"hooks":{ }}',
    '{"hooks" : {"PreToolUse":[]}}',
    '{"hooks":null}',
  ),
  fc
    .tuple(
      settings,
      fc.constantFrom(undefined, 1, 2, '\t'),
      fc.constantFrom('', '\ufeff'),
      fc.constantFrom('', '\n', '\r\n'),
    )
    .map(([value, indent, mark, end]) => mark + JSON.stringify(value, null, indent) + end),
)
const anyTool = fc.constantFrom<Tool[]>('claude-code', 'codex')

describe(`uninstall (seed ${seed})`, { timeout: 120_000 }, () => {
  test('restores the file byte for byte, whatever the number of installs', async () => {
    const property = fc.asyncProperty(
      anyTool,
      files0,
      fc.array(fc.boolean(), { minLength: 1, maxLength: 3 }),
      async (tool, before, installs) => {
        put(tool, before)
        for (const failClosed of installs) await add(tool, failClosed)
        expect(read(tool)).toContain('wardline-agent')
        await remove(tool)
        expect(read(tool)).toBe(before)
      },
    )
    await fc.assert(property, { seed, numRuns: 200 })
  })

  test('removes only its own entries if the file was changed since the install', async () => {
    const property = fc.asyncProperty(anyTool, files0, fc.jsonValue(), async (tool, before, value) => {
      put(tool, before)
      await add(tool)
      const change = (text: string) => text.replace('{', () => `{ "since" : ${JSON.stringify(value)} , `)
      const changed = change(read(tool)!)
      writeFileSync(files[tool], changed)
      await remove(tool)
      const after = read(tool)!
      expect(after).not.toContain('wardline-agent')
      // Nothing was added, and nothing is missing except the hook and the list that contained it.
      const { hooks: left = {}, ...others } = JSON.parse(after.replace(/^\ufeff/, ''))
      const { hooks, ...known } = JSON.parse(changed.replace(/^\ufeff/, ''))
      expect(others).toEqual(known)
      const own = (entries: unknown[] = []) =>
        entries.filter((entry) => !JSON.stringify(entry).includes('wardline-agent'))
      const events = ['PreToolUse', 'UserPromptSubmit', 'PostToolUse', 'Stop', 'SubagentStop']
      const lists = Object.fromEntries(events.map((event) => [event, own(hooks[event])]))
      const empty = Object.fromEntries(events.map((event) => [event, []]))
      expect({ ...empty, ...left }).toEqual({ ...hooks, ...lists })
    })
    await fc.assert(property, { seed, numRuns: 200 })
  })

  test('removes all its hooks from a file that changed between two installs', async () => {
    put('codex', '{ "a": 1 }\n')
    await add('codex')
    writeFileSync(files.codex, `${read('codex')}\n`)
    await add('codex', true)
    await remove('codex')
    expect(read('codex')).toBe('{ "a": 1 }\n\n')
  })
})

describe('the installed program', { timeout: 60_000 }, () => {
  test.each([
    ['cursor', '.cursor/hooks.json', undefined],
    ['cursor', '.cursor/hooks.json', '{"hooks":{}}'],
    ['claude-code', '.claude/settings.json', undefined],
    ['gemini-cli', '.gemini/settings.json', '{ "hooks": { "BeforeTool": [] }, "security": {} }'],
    ['copilot-cli', '.copilot/hooks/wardline.json', undefined],
    ['codex', '.codex/hooks.json', '{ "hooks": { "PreToolUse": [] } }'],
  ])('restores the previous settings of %s in %s: %j', async (tool, file, before) => {
    const home = new AgentHome()
    if (before !== undefined) home.write(file, before, 0o640)
    await home.run(['install', tool, '--yes'])
    // Settings may contain secrets.
    const [state] = readdirSync(home.path('.local/state/wardline'))
    expect(statSync(home.path('.local/state/wardline', state!)).mode & 0o777).toBe(0o600)
    expect(await home.run(['uninstall', tool, '--yes'])).toMatchObject({ code: 0, stderr: '' })
    expect(existsSync(home.path(file)) ? home.read(file) : undefined).toBe(before)
    if (before !== undefined) expect(statSync(home.path(file)).mode & 0o777).toBe(0o640)
    expect(readdirSync(home.path('.local/state/wardline'))).toEqual([])
    expect((await home.run(['uninstall', tool, '--yes'])).stdout).toContain('not installed')
  })

  test('leaves a file unchanged that is not UTF-8', async () => {
    const home = new AgentHome()
    const file = home.write('.codex/hooks.json', '')
    const bytes = Buffer.from('{"a":"\xff"}', 'latin1')
    writeFileSync(file, bytes)
    expect(await home.run(['install', 'codex', '--yes'])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('not UTF-8'),
    })
    expect(readFileSync(file)).toEqual(bytes)
  })
})
