import { generateText, stepCountIs, streamText, tool } from 'ai-v6'
import { convertArrayToReadableStream, MockLanguageModelV3 } from 'ai-v6/test'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { answerReporter, guardTools } from './ai-sdk-v6.ts'
import type { Monitor } from './monitor.ts'
import { denied, describeAdapter, openTwoMonitors, readFile } from './testing/adapter.ts'
import type { TestFleet } from './testing/service.ts'

const inputTokens = { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 }
const usage = { inputTokens, outputTokens: { total: 1, text: 1, reasoning: 0 } }

const callOf = (toolName: string, input: object) =>
  ({ type: 'tool-call', toolCallId: 'call-1', toolName, input: JSON.stringify(input) }) as const
const finish = (unified: 'stop' | 'tool-calls') => ({ unified, raw: undefined })

/** Model that calls a tool once, then answers "done". */
const modelThat = (call: ReturnType<typeof callOf>) =>
  new MockLanguageModelV3({
    doGenerate: [
      { content: [call], finishReason: finish('tool-calls'), usage, warnings: [] },
      { content: [{ type: 'text', text: 'done' }], finishReason: finish('stop'), usage, warnings: [] },
    ],
  })

const toolResultOf = (model: MockLanguageModelV3): unknown => {
  const [part] = model.doGenerateCalls[1]!.prompt.at(-1)!.content as { output: { value?: unknown; type: string } }[]
  return part!.output.value
}

describeAdapter(
  'the AI SDK 6',
  async (monitor, path) => {
    const ran: string[] = []
    const tools = guardTools(monitor, {
      'file-read': tool({
        inputSchema: z.object({ path: z.string() }),
        execute: async ({ path }) => {
          ran.push(path)
          return readFile(path)
        },
      }),
    })
    const model = modelThat(callOf('file-read', { path }))
    const onFinish = answerReporter(monitor)
    await generateText({ model, tools, prompt: 'read it', stopWhen: stepCountIs(3), onFinish })
    return { ran, output: toolResultOf(model) }
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

const inputSchema = z.object({ path: z.string() })

async function streamed(monitor: Monitor, execute: (input: { path: string }) => AsyncIterable<string>) {
  const model = new MockLanguageModelV3({
    doStream: [
      {
        stream: convertArrayToReadableStream([
          callOf('watch', { path: 'a.log' }),
          { type: 'finish', finishReason: finish('tool-calls'), usage },
        ]),
      },
    ],
  })
  const tools = guardTools(monitor, { watch: tool({ inputSchema, execute }) })
  const outputs: unknown[] = []
  for await (const part of streamText({ model, tools, prompt: 'watch it' }).fullStream) {
    if (part.type === 'tool-result') outputs.push([part.preliminary === true, part.output])
  }
  return outputs
}

test('streams the results that a tool yields', async () => {
  const outputs = await streamed(active, async function* ({ path }) {
    yield `${path}: 1`
    yield `${path}: 2`
  })
  expect(outputs).toEqual([
    [true, 'a.log: 1'],
    [true, 'a.log: 2'],
    [false, 'a.log: 2'],
  ])
  await active.flush()
  expect((await fleet.events('tool_call'))[0]).toMatchObject({ metadata: { toolName: 'watch', ok: true } })
})

test('returns only the last result of an ordinary function that returns an iterable', async () => {
  const twice = async function* () {
    yield 'first'
    yield 'last'
  }
  expect(await streamed(active, () => twice())).toEqual([[false, 'last']])
})

test('denies a tool that streams its results', async () => {
  let runs = 0
  const outputs = await streamed(suspended, async function* () {
    runs += 1
    yield 'never'
  })
  expect(runs).toBe(0)
  expect(outputs.at(-1)).toEqual([false, denied(expect.stringContaining('suspended'))])
})

test('does not pass a denial to toModelOutput of the tool', async () => {
  const model = modelThat(callOf('count', { path: '/' }))
  const count = tool({
    inputSchema,
    execute: async () => ({ files: ['a', 'b'] }),
    toModelOutput: ({ output }) => ({ type: 'text', value: `${output.files.length} files` }),
  })
  const outputFor = async (monitor: Monitor) => {
    model.doGenerateCalls.length = 0
    await generateText({ model, tools: guardTools(monitor, { count }), prompt: 'count', stopWhen: stepCountIs(3) })
    return toolResultOf(model)
  }
  expect(await outputFor(suspended)).toEqual(denied(expect.any(String)))
  expect(await outputFor(active)).toBe('2 files')
})

test('requests approval for a denied call of a tool without execute, and reports an allowed one', async () => {
  const open = async (monitor: Monitor) => {
    const tools = guardTools(monitor, { 'open-page': tool({ inputSchema }) })
    const { content } = await generateText({
      model: modelThat(callOf('open-page', { path: '/' })),
      tools,
      prompt: 'go',
    })
    return content.map(({ type }) => type)
  }
  expect(await open(suspended)).toContain('tool-approval-request')
  expect(await open(active)).toEqual(['tool-call'])
  await active.flush()
  expect((await fleet.events('tool_call'))[0]).toMatchObject({ metadata: { toolName: 'open-page' } })
})
