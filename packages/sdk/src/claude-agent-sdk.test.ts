import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type HookCallbackMatcher, query, type SDKMessage } from '@anthropic-ai/claude-agent-sdk'
import { afterAll, afterEach, beforeEach, expect, test } from 'vitest'
import { guardHooks } from './claude-agent-sdk.ts'
import { describeAdapter } from './testing/adapter.ts'
import { eventually, TestFleet } from './testing/service.ts'

/** Stand-in for Claude Code: the real Agent SDK talks to it and runs the hooks, but no model decides. */
const claude = fileURLToPath(new URL('../../../examples/claude-agent-sdk/offline-claude.ts', import.meta.url))
const toolName = 'mcp__files__read'

const cwd = mkdtempSync(join(tmpdir(), 'wardline-claude-'))
writeFileSync(join(cwd, 'notes.txt'), 'the content of notes.txt')
writeFileSync(join(cwd, 'more.txt'), 'more')
afterAll(() => rmSync(cwd, { recursive: true, force: true }))

interface Turn {
  ran: string[]
  output: string[]
}

/** Makes the calls one after another and returns their results. */
async function takeTurn(hooks: ReturnType<typeof guardHooks>, paths: string[]): Promise<Turn> {
  const turn: Turn = { ran: [], output: [] }
  const prompt = JSON.stringify(paths.map((path) => ({ tool: toolName, input: { path } })))
  const messages = query({ prompt, options: { cwd, hooks, pathToClaudeCodeExecutable: claude, settingSources: [] } })
  for await (const message of messages) {
    turn.output.push(...resultsOf(message))
    if (message.type === 'result' && message.subtype === 'success') turn.ran = JSON.parse(message.result)
  }
  return turn
}

function resultsOf(message: SDKMessage): string[] {
  if (message.type !== 'user' || typeof message.message.content === 'string') return []
  return message.message.content.flatMap((part) => (part.type === 'tool_result' ? String(part.content) : []))
}

describeAdapter(
  'the Claude Agent SDK',
  async (monitor, path) => {
    const { ran, output } = await takeTurn(guardHooks(monitor), [path])
    return { ran, output: output[0] }
  },
  toolName,
  '["notes.txt"]',
)

let fleet: TestFleet
beforeEach(async () => {
  fleet = await TestFleet.open()
})
afterEach(() => fleet[Symbol.asyncDispose]())

test('stops a suspended agent instead of denying each of its calls', async () => {
  const { monitor } = fleet.monitor()
  await monitor.start()
  await fleet.kill('test')
  await eventually(() => expect(monitor.suspended).toBe(true))
  const { ran, output } = await takeTurn(guardHooks(monitor), ['notes.txt', 'more.txt'])
  expect([ran, output.length]).toEqual([[], 1])
})

test('denies a decoy path relative to the folder of the session, and allows the next call', async () => {
  await fleet.plantPath(join(cwd, 'notes.txt'))
  const { monitor } = fleet.monitor()
  await monitor.start()
  const { ran, output } = await takeTurn(guardHooks(monitor), ['notes.txt', 'more.txt'])
  expect(ran).toEqual(['more.txt'])
  expect(JSON.parse(output[0]!)).toMatchObject({ denied: true, retryable: false })
  expect(output[1]).toBe('more')
  await monitor.flush()
  const [call] = await fleet.events('tool_call')
  expect(call).toMatchObject({ session_id: expect.stringMatching(/^[\da-f-]{36}$/), metadata: { durationMs: 1 } })
})

test('runs your hooks in addition to the guard hooks', async () => {
  const { monitor } = fleet.monitor()
  await monitor.start()
  const seen: string[] = []
  const note: HookCallbackMatcher = {
    hooks: [
      async ({ hook_event_name }) => {
        seen.push(hook_event_name)
        return {}
      },
    ],
  }
  const own = { PreToolUse: [note], PostToolUse: [note], SessionStart: [note] }
  const hooks = guardHooks(monitor, own)
  expect(hooks.SessionStart).toEqual([note])
  await takeTurn(hooks, ['more.txt'])
  expect(seen).toEqual(['PreToolUse', 'PostToolUse'])
  await monitor.flush()
  expect(await fleet.events('tool_call')).toHaveLength(1)
})

// A hook that cannot answer allows the call, unless Claude Code is configured to block.
test('configures a failing hook to block the call only when failing closed', async () => {
  const [open, closed] = (['open', 'closed'] as const).map((failMode) => fleet.monitor({ failMode }).monitor)
  expect(guardHooks(open!).PreToolUse[0]!.onFailure).toBeUndefined()
  expect(guardHooks(closed!).PreToolUse[0]!.onFailure).toBe('block')
  await closed!.start()
  expect(await takeTurn(guardHooks(closed!), ['more.txt'])).toEqual({ ran: ['more.txt'], output: ['more'] })
})
