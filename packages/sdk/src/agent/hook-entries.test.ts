import fc from 'fast-check'
import { expect, test } from 'vitest'
import { codingTools as all } from '../coding-tools.ts'
import { type JsonTool, withHook, withoutHook } from './hook-entries.ts'
import { hasPlugin } from './plugin-text.ts'
import { parseSettings } from './settings-text.ts'
import { textDiff } from './text-diff.ts'

const codingTools = all.filter((tool): tool is JsonTool => !hasPlugin(tool))
const command = "'/usr/bin/node' '/opt/wardline-agent.js' hook claude-code"

test.each([
  [
    'claude-code',
    {
      hooks: {
        PreToolUse: [{ matcher: '*', hooks: [{ type: 'command', command, timeout: 5, onFailure: 'block' }] }],
        UserPromptSubmit: [{ hooks: [{ type: 'command', command, timeout: 5, async: true }] }],
        PostToolUse: [{ matcher: '*', hooks: [{ type: 'command', command, timeout: 5, async: true }] }],
        Stop: [{ hooks: [{ type: 'command', command, timeout: 5, async: true }] }],
        SubagentStop: [{ hooks: [{ type: 'command', command, timeout: 5, async: true }] }],
      },
    },
  ],
  [
    'codex',
    {
      hooks: {
        PreToolUse: [{ matcher: '*', hooks: [{ type: 'command', command, timeout: 5 }] }],
        UserPromptSubmit: [{ hooks: [{ type: 'command', command, timeout: 5 }] }],
      },
    },
  ],
  [
    'cursor',
    {
      version: 1,
      hooks: {
        preToolUse: [{ command, timeout: 5, failClosed: true }],
        beforeSubmitPrompt: [{ command, timeout: 5 }],
      },
    },
  ],
  [
    'copilot-cli',
    {
      version: 1,
      hooks: {
        PreToolUse: [{ type: 'command', command, timeoutSec: 5 }],
        UserPromptSubmit: [{ type: 'command', command, timeoutSec: 5 }],
      },
    },
  ],
] as const)('puts a hook before every tool and after every prompt of %s', (tool, settings) => {
  for (const text of ['', '\n', '{}', '{ }\n', '{"hooks":null}', '\ufeff']) {
    expect(parseSettings(withHook(text, tool, command))).toEqual(settings)
  }
  expect(withHook('', tool, command)).toBe(`${JSON.stringify(settings, null, 2)}\n`)
})

const foreign = {
  model: 'opus',
  hooks: {
    PreToolUse: [{ matcher: 'Write', hooks: [{ type: 'command', command: 'prettier --check' }] }],
    Stop: [{ hooks: [{ type: 'command', command: 'say done' }] }],
    preToolUse: [{ command: './audit.sh' }],
  },
  version: 1,
  env: { API_KEY: 'x' },
}

const forms = [
  JSON.stringify(foreign),
  JSON.stringify(foreign, null, 2),
  `\ufeff${JSON.stringify(foreign, null, '\t').replaceAll('\n', '\r\n')}\r\n`,
  // Numbers and characters that serializing would change, and a duplicate name.
  '{ "big": 12345678901234567890, "one": 1.0, "é": "\\u00e9\\/", "hooks": 1,\n  "hooks" : {"PreToolUse":[ {"a":1} , 2 ], "preToolUse": [{"b":[]}]} , "version":1 }\n\n',
]

test.each(codingTools)('changes only the hook in the settings of %s, and removes it again', (tool) => {
  for (const text of forms) {
    const installed = withHook(text, tool, command)
    const kept = installed.split('\n').filter((line) => text.includes(line.trim()))
    expect(kept.length).toBeGreaterThanOrEqual(text.split('\n').length - 1)
    expect(JSON.stringify(parseSettings(installed))).toContain('wardline-agent')
    expect(withHook(installed, tool, command)).toBe(installed)
    expect(withoutHook(installed)).toBe(text)
  }
})

const seed = 20261122

/** Settings as people write them: any JSON, sometimes with values of any kind where hooks belong. */
const anySettings = fc
  .record(
    {
      before: fc.dictionary(fc.string(), fc.jsonValue(), { maxKeys: 3 }),
      hooks: fc.dictionary(
        fc.constantFrom('PreToolUse', 'preToolUse', 'Stop', '__proto__', '1'),
        fc.array(
          fc.oneof(
            fc.jsonValue(),
            fc.record({ command: fc.string(), hooks: fc.array(fc.record({ command: fc.string() }), { maxLength: 2 }) }),
          ),
          { minLength: 1, maxLength: 3 },
        ),
        { minKeys: 1, maxKeys: 3 },
      ),
      after: fc.dictionary(fc.string(), fc.jsonValue(), { maxKeys: 3 }),
    },
    { requiredKeys: [] },
  )
  .map(({ before, hooks, after }) => ({ ...before, ...(hooks ? { hooks } : {}), ...after, version: 1 }))
  .filter(({ hooks }: { hooks?: unknown }) => hooks === undefined || !Array.isArray(hooks))

/** The same JSON with different white space between tokens. */
const inAnyForm = (settings: unknown) =>
  fc
    .tuple(fc.constantFrom(undefined, 1, 2, '\t'), fc.constantFrom('', '\ufeff'), fc.constantFrom('', '\n', '\r\n \t'))
    .map(([indent, mark, end]) => mark + JSON.stringify(settings, null, indent) + end)

const isOfHooks = (settings: Record<string, unknown>) =>
  settings.hooks === undefined ||
  (typeof settings.hooks === 'object' &&
    settings.hooks !== null &&
    !Array.isArray(settings.hooks) &&
    Object.values(settings.hooks).every((entries) => Array.isArray(entries) && entries.length > 0) &&
    Object.keys(settings.hooks).length > 0)

test(`removes exactly what it added to any settings (seed ${seed})`, () => {
  const settingsInForm = anySettings.filter(isOfHooks).chain(inAnyForm)
  fc.assert(
    fc.property(settingsInForm, fc.constantFrom(...codingTools), (text, tool) => {
      const installed = withHook(text, tool, command)
      expect(installed).not.toBe(text)
      expect(withHook(installed, tool, command)).toBe(installed)
      expect(withoutHook(installed)).toBe(text)
    }),
    { seed, numRuns: 500 },
  )
})

test('replaces an older hook in place, and removes it from a group with others', () => {
  const old = { type: 'command', command: '/old/wardline-agent hook claude-code' }
  const other = { type: 'command', command: 'prettier --check' }
  const settings = {
    hooks: {
      PreToolUse: [
        { matcher: 'Bash', hooks: [old] },
        { matcher: 'Write', hooks: [other] },
      ],
    },
  }
  const renewed = parseSettings(withHook(JSON.stringify(settings, null, 2), 'claude-code', command))
  expect(renewed).toEqual({
    hooks: {
      PreToolUse: [
        { matcher: '*', hooks: [{ type: 'command', command, timeout: 5, onFailure: 'block' }] },
        { matcher: 'Write', hooks: [other] },
      ],
      UserPromptSubmit: [{ hooks: [{ type: 'command', command, timeout: 5, async: true }] }],
      PostToolUse: [{ matcher: '*', hooks: [{ type: 'command', command, timeout: 5, async: true }] }],
      Stop: [{ hooks: [{ type: 'command', command, timeout: 5, async: true }] }],
      SubagentStop: [{ hooks: [{ type: 'command', command, timeout: 5, async: true }] }],
    },
  })
  const group = (hooks: unknown[]) => JSON.stringify({ hooks: { PreToolUse: [{ matcher: '*', hooks }] } }, null, 1)
  expect(withoutHook(group([other, old, other, old]))).toBe(group([other, other]))
  expect(withoutHook(group([old, other]))).toBe(group([other]))
  expect(withoutHook(group([old, old]))).toBe('{}')
})

test('changes nothing in settings without the hook', () => {
  const others = ['', '{}', '{ "hooks": {} }', '{"hooks":{"PreToolUse":[ ]}}', '{"a":1}', ...forms]
  for (const text of others) expect(withoutHook(text)).toBe(text)
})

test.each([
  ['[]', /must be an object/],
  ['{"hooks":[]}', /hooks must be an object/],
  ['{"hooks":{"PreToolUse":{}}}', /hooks\.PreToolUse must be a list/],
])('refuses settings in another format: %s', (settings, says) => {
  expect(() => withHook(settings, 'claude-code', command)).toThrow(says)
})

test.each([
  ['{\n "a": 1,\n}', 3, 1],
  ['{"a":"sk-secret" x}', 1, 18],
  ['{\n  // a comment\n}', 2, 3],
  ['{"a": 1', 1, 8],
  ['{\n"a": tru }', 2, 9],
  ['nope', 1, 2],
])('names the position where %j is not JSON, without quoting it', (text, line, column) => {
  expect(() => parseSettings(text)).toThrow(`It is not JSON: line ${line}, column ${column}.`)
})

test('shows a change with some context, without credentials', () => {
  const before = 'a\nb\nc\nd\nTOKEN=ghp_0123456789abcdefghijABCDEFGHIJ012345\nf\n'
  expect(textDiff(before, before.replace('f\n', 'F\ng\n'))).toBe('  c\n  d\n  TOKEN=[redacted]\n- f\n+ F\n+ g')
  expect(textDiff('', 'new\n')).toBe('+ new')
  expect(textDiff('a\nb\nc\n', 'a\nb\nd\n')).toBe('  a\n  b\n- c\n+ d')
})
