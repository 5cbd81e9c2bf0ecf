import { expect, test } from 'vitest'
import { codingTools } from './agent-settings.ts'
import { withHook, withoutHook } from './hook-entries.ts'
import { parseSettings } from './settings-text.ts'
import { textDiff } from './text-diff.ts'

const command = "'/usr/bin/node' '/opt/wardline-agent.js' hook claude-code"

test.each([
  [
    'claude-code',
    {
      hooks: { PreToolUse: [{ matcher: '*', hooks: [{ type: 'command', command, timeout: 5, onFailure: 'block' }] }] },
    },
  ],
  ['codex', { hooks: { PreToolUse: [{ matcher: '*', hooks: [{ type: 'command', command, timeout: 5 }] }] } }],
  ['cursor', { version: 1, hooks: { preToolUse: [{ command, timeout: 5, failClosed: true }] } }],
] as const)('puts a hook before every tool of %s', (tool, settings) => {
  expect(withHook({}, tool, command)).toEqual(settings)
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

test.each(codingTools)('leaves everything else of %s alone, and takes out exactly what it put in', (tool) => {
  const before = structuredClone(foreign)
  const installed = withHook(foreign, tool, command)
  expect(foreign).toEqual(before)
  expect(installed).toMatchObject({ model: 'opus', env: { API_KEY: 'x' }, hooks: { Stop: before.hooks.Stop } })
  expect(withHook(installed, tool, command)).toEqual(installed)
  expect(withoutHook(installed)).toEqual(before)
  expect(Object.keys(withoutHook(installed))).toEqual(Object.keys(before))
})

test('renews an older hook in its place, and takes it out of a group with others', () => {
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
  const { hooks } = withHook(settings, 'claude-code', command) as { hooks: { PreToolUse: unknown[] } }
  expect(hooks.PreToolUse).toEqual([
    { matcher: '*', hooks: [{ type: 'command', command, timeout: 5, onFailure: 'block' }] },
    { matcher: 'Write', hooks: [other] },
  ])
  expect(withoutHook({ hooks: { PreToolUse: [{ matcher: '*', hooks: [other, old] }] } })).toEqual({
    hooks: { PreToolUse: [{ matcher: '*', hooks: [other] }] },
  })
})

test('takes out nothing where nothing is', () => {
  for (const settings of [{}, { hooks: {} }, { hooks: { PreToolUse: [] } }, { a: 1 }, foreign]) {
    expect(withoutHook(settings)).toEqual(settings)
  }
})

test.each([
  [[], /must be an object/],
  [{ hooks: [] }, /hooks must be an object/],
  [{ hooks: { PreToolUse: {} } }, /hooks\.PreToolUse must be a list/],
])('refuses settings of another form: %j', (settings, says) => {
  expect(() => withHook(settings, 'claude-code', command)).toThrow(says)
})

test.each([
  ['{\n "a": 1,\n}', 3, 1],
  ['{"a":"sk-secret" x}', 1, 18],
  ['{\n  // a comment\n}', 2, 3],
  ['{"a": 1', 1, 8],
  ['{\n"a": tru }', 2, 9],
  ['nope', 1, 2],
])('says where %j is no JSON, and nothing of what stands there', (text, line, column) => {
  expect(() => parseSettings(text)).toThrow(`It is not JSON: line ${line}, column ${column}.`)
})

test.each(['{\n  "a": [\n    1\n  ]\n}\n', '{\n\t"a": 1\n}', '{\r\n    "a": 1\r\n}\r\n', '\ufeff{\n  "a": 1\n}\n\n'])(
  'gives settings back in the form they had: %j',
  (text) => {
    const { value, format } = parseSettings(text)
    expect(format(value)).toBe(text)
  },
)

test('shows what changes with a little around it, without credentials', () => {
  const before = 'a\nb\nc\nd\nTOKEN=ghp_0123456789abcdefghijABCDEFGHIJ012345\nf\n'
  expect(textDiff(before, before.replace('f\n', 'F\ng\n'))).toBe('  c\n  d\n  TOKEN=[redacted]\n- f\n+ F\n+ g')
  expect(textDiff('', 'new\n')).toBe('+ new')
})
