import { Readable } from 'node:stream'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { sample } from '../testing/agent-command.ts'
import { parseCall, readInput } from './hook-input.ts'

const parsed = (name: string) => parseCall(JSON.stringify(sample(name)), undefined)

test.each([
  [
    'claude-code.PreToolUse.Bash.agent-sdk-0.3.330',
    { tool: 'claude-code', toolName: 'Bash', cwd: '/home/anna/shop', callId: 'toolu_01A9bash' },
  ],
  [
    'codex.PreToolUse.apply_patch.codex-rs-54ea2bf',
    { tool: 'codex', toolName: 'apply_patch', cwd: '/home/anna/shop', callId: 'call_patch' },
  ],
  // The working folder in the arguments takes precedence over the agent's.
  [
    'cursor.preToolUse.Shell.cursor-docs-2026-08',
    { tool: 'cursor', toolName: 'Bash', cwd: '/home/anna/shop/web', callId: 'tool_shell' },
  ],
  [
    'cursor.beforeShellExecution.cursor-docs-2026-08',
    { tool: 'cursor', toolName: 'Bash', cwd: '/home/anna/shop', args: { command: 'git status' } },
  ],
  ['cursor.beforeMCPExecution.cursor-docs-2026-08', { tool: 'cursor', toolName: 'query', args: { sql: 'select 1' } }],
  // The content of the file is not part of the arguments.
  [
    'cursor.beforeReadFile.cursor-docs-2026-08',
    { tool: 'cursor', toolName: 'Read', args: { file_path: '/home/anna/shop/src/price.ts' } },
  ],
  [
    'gemini-cli.BeforeTool.run_shell_command.gemini-cli-0.61.0',
    { tool: 'gemini-cli', toolName: 'Bash', cwd: '/home/anna/shop/web', callId: undefined },
  ],
  [
    'gemini-cli.BeforeTool.mcp.gemini-cli-0.61.0',
    { tool: 'gemini-cli', toolName: 'mcp__db__query', cwd: '/home/anna/shop', args: { sql: 'select 1' } },
  ],
  [
    'copilot-cli.PreToolUse.Bash.copilot-1.0.102',
    { tool: 'copilot-cli', toolName: 'Bash', cwd: '/home/anna/shop', scope: 'main' },
  ],
  [
    'copilot-cli.PreToolUse.subagent.copilot-1.0.102',
    {
      tool: 'copilot-cli',
      toolName: 'Bash',
      scope: 'subagent',
      sessionId: 'd0c92d74-cbfd-4da7-95ac-54227154430d',
      subagent: {
        id: 'd0c92d74-cbfd-4da7-95ac-54227154430d',
        type: 'general-purpose',
        parent: '86accd92-5f4b-4549-b696-f65ba27a707a',
      },
    },
  ],
  ['copilot-cli.PreToolUse.mcp.copilot-1.0.102', { tool: 'copilot-cli', toolName: 'db-query' }],
  [
    'openclaw.PreToolUse.exec.openclaw-2026.9.6',
    { tool: 'openclaw', toolName: 'Bash', cwd: '/home/anna/.openclaw/workspace', scope: 'main' },
  ],
  ['openclaw.PreToolUse.subagent.openclaw-2026.9.6', { tool: 'openclaw', toolName: 'WebFetch', scope: 'subagent' }],
])('reads %s', (name, call) => {
  expect(parsed(name)).toMatchObject({ ...call, isBefore: true })
})

test('does not treat other events as calls', () => {
  expect(parsed('claude-code.PostToolUse.Bash.agent-sdk-0.3.330')).toMatchObject({ isBefore: false })
  for (const event of ['Stop', 'SessionStart', 'afterFileEdit', 'postToolUse']) {
    expect(parseCall(JSON.stringify({ hook_event_name: event }), 'cursor')).toMatchObject({ isBefore: false })
  }
})

test('reads prompts, results and answers of Gemini CLI', () => {
  const of = (event: string) => parsed(`gemini-cli.${event}.gemini-cli-0.61.0`)
  expect(of('BeforeAgent')).toMatchObject({ isBefore: false, prompt: 'Show me what changed' })
  expect(of('AfterAgent')).toMatchObject({ isBefore: false, answer: 'Nothing changed.' })
  const after = sample('gemini-cli.AfterTool.run_shell_command.gemini-cli-0.61.0')
  const result = after.tool_response as object
  const outcomeOf = (response: object) => parseCall(JSON.stringify({ ...after, tool_response: response }), undefined)
  expect(outcomeOf(result)).toMatchObject({ toolName: 'Bash', outcome: { ok: true, result } })
  expect(outcomeOf({ ...result, error: { message: 'x' } })).toMatchObject({ outcome: { ok: false } })
})

test('reads results of Copilot CLI', () => {
  const after = sample('copilot-cli.PostToolUse.Bash.copilot-1.0.102')
  const result = 'M web/price.ts\n<shellId: 0 completed with exit code 0>'
  expect(parseCall(JSON.stringify(after), undefined)).toMatchObject({ toolName: 'Bash', outcome: { ok: true, result } })
  const failed = { ...after, tool_result: { result_type: 'failure', text_result_for_llm: result } }
  expect(parseCall(JSON.stringify(failed), undefined)).toMatchObject({ outcome: { ok: false, result } })
})

test('keeps names of tools that only Gemini CLI uses so', () => {
  const call = { hook_event_name: 'PreToolUse', tool_name: 'replace', tool_input: {} }
  expect(parseCall(JSON.stringify(call), 'codex')).toMatchObject({ toolName: 'replace' })
  expect(parseCall(JSON.stringify(call), 'gemini-cli')).toMatchObject({ toolName: 'Edit' })
  for (const tool_name of ['constructor', '__proto__']) {
    expect(parseCall(JSON.stringify({ ...call, tool_name }), 'gemini-cli')).toMatchObject({ toolName: tool_name })
  }
})

test.each([
  ['Stop', 'last_assistant_message'],
  ['SubagentStop', 'last_assistant_message'],
  ['afterAgentResponse', 'text'],
])('reads the answer of %s', (event, field) => {
  const answerOf = (fields: object) => parseCall(JSON.stringify({ hook_event_name: event, ...fields }), undefined)
  expect(answerOf({ [field]: 'Done.' })).toMatchObject({ isBefore: false, answer: 'Done.' })
  for (const value of [undefined, '', 7, null, { text: 'x' }]) {
    expect(answerOf({ [field]: value })).toMatchObject({ isBefore: false, answer: undefined })
  }
})

test('accepts any input without throwing, and quotes nothing from it', () => {
  const secret = 'sk-live-5e2d8c1b7a9f'
  const anything = fc.oneof(
    fc.json(),
    fc.string(),
    fc.json().map((json) => `{"hook_event_name":"PreToolUse","a":${json}}`),
  )
  fc.assert(
    fc.property(anything, (input) => {
      const call = parseCall(input.replace('"', `"${secret}`), undefined)
      if ('fault' in call) expect(call.fault).not.toContain(secret)
    }),
    { seed: 20261121 },
  )
})

test('reads the same text wherever chunks are split', async () => {
  const text = '{"a":"Grüße 👋"}'
  const bytes = Buffer.from(text)
  const parts = [...bytes].map((byte) => Buffer.from([byte]))
  expect(await readInput(Readable.from(parts), 60_000)).toBe(text)
})
