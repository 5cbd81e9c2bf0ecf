import { generateText, isStepCount, ToolLoopAgent, tool } from 'ai-v7'
import { MockLanguageModelV4 } from 'ai-v7/test'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { answerReporter, guardApproval, guardTools } from './ai-sdk-v7.ts'
import type { Monitor } from './monitor.ts'
import { describeAdapter, openTwoMonitors, readFile } from './testing/adapter.ts'
import type { TestFleet } from './testing/service.ts'

const inputTokens = { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 }
const usage = { inputTokens, outputTokens: { total: 1, text: 1, reasoning: 0 } }
const finish = (unified: 'stop' | 'tool-calls') => ({ unified, raw: undefined })

/** Model that calls a tool once, then answers "done". */
const modelThat = (toolName: string, path: string) =>
  new MockLanguageModelV4({
    doGenerate: [
      {
        content: [{ type: 'tool-call', toolCallId: 'call-1', toolName, input: JSON.stringify({ path }) }],
        finishReason: finish('tool-calls'),
        usage,
        warnings: [],
      },
      { content: [{ type: 'text', text: 'done' }], finishReason: finish('stop'), usage, warnings: [] },
    ],
  })

const toolResultOf = (model: MockLanguageModelV4) => {
  const [part] = model.doGenerateCalls[1]!.prompt.at(-1)!.content as { output: { value?: unknown; type: string } }[]
  return part!.output
}

const inputSchema = z.object({ path: z.string() })

describeAdapter(
  'the AI SDK 7',
  async (monitor, path) => {
    const ran: string[] = []
    const tools = guardTools(monitor, {
      'file-read': tool({
        inputSchema,
        execute: async ({ path }) => {
          ran.push(path)
          return readFile(path)
        },
      }),
    })
    const model = modelThat('file-read', path)
    const onEnd = answerReporter(monitor)
    await new ToolLoopAgent({ model, tools, toolApproval: guardApproval(monitor), onEnd }).generate({
      prompt: 'read it',
    })
    return { ran, output: toolResultOf(model).value }
  },
  'file-read',
  'done',
  true,
)

let fleet: TestFleet
let active: Monitor
let suspended: Monitor
beforeAll(async () => {
  ;({ fleet, active, suspended } = await openTwoMonitors())
})
afterAll(() => fleet[Symbol.asyncDispose]())

const contents = async (answer: PromiseLike<{ content: { type: string }[] }>) =>
  (await answer).content.map(({ type }) => type)

// A tool without `execute` has no function that a guard could wrap.
test('denies and reports calls of tools without execute', async () => {
  const tools = { 'open-page': tool({ inputSchema }) }
  const model = modelThat('open-page', '/')
  const open = (monitor: Monitor) =>
    generateText({ model, tools, prompt: 'go', toolApproval: guardApproval(monitor), stopWhen: isStepCount(2) })
  // The model reads the denial and continues.
  expect(await contents(open(suspended))).toEqual([
    'tool-call',
    'tool-approval-request',
    'tool-approval-response',
    'text',
  ])
  expect(toolResultOf(model)).toMatchObject({
    type: 'execution-denied',
    reason: 'This agent is suspended (test). It must stop here and not retry.',
  })
  model.doGenerateCalls.length = 0
  expect(await contents(open(active))).toEqual(['tool-call'])
  await active.flush()
  expect((await fleet.events('tool_call'))[0]).toMatchObject({
    metadata: { toolName: 'open-page', params: { path: '/' } },
  })
})

test('guardApproval guards a tool that was not wrapped', async () => {
  let runs = 0
  const tools = { bare: tool({ inputSchema, execute: async () => ++runs }) }
  const run = (monitor: Monitor) =>
    generateText({ model: modelThat('bare', '/'), tools, prompt: 'go', toolApproval: guardApproval(monitor) })
  await run(suspended)
  expect(runs).toBe(0)
  await run(active)
  expect(runs).toBe(1)
})

test('applies your rule to allowed calls, or needsApproval if there is none', async () => {
  const tools = {
    bare: tool({ inputSchema, execute: async () => 'ran', needsApproval: ({ path }) => path === '/etc' }),
  }
  const run = (path: string, ...own: [() => 'denied'] | []) =>
    contents(
      generateText({
        model: modelThat('bare', path),
        tools,
        prompt: 'go',
        toolApproval: guardApproval(active, ...own),
      }),
    )
  expect(await run('/srv')).toContain('tool-result')
  expect(await run('/etc')).toEqual(['tool-call', 'tool-approval-request'])
  expect(await run('/srv', () => 'denied')).not.toContain('tool-result')
})
