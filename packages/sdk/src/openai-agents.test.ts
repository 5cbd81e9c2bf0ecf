import {
  Agent,
  applyPatchTool,
  type Model,
  type ModelRequest,
  type ModelResponse,
  type protocol,
  Runner,
  shellTool,
  tool,
  Usage,
} from '@openai/agents'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import type { Monitor } from './monitor.ts'
import { guardTools, reportAnswers } from './openai-agents.ts'
import { denied, describeAdapter, openTwoMonitors, readDenial, readFile } from './testing/adapter.ts'
import type { TestFleet } from './testing/service.ts'

interface ToolOutput {
  output: unknown
  status?: string
}

/** Model that calls a tool once, then answers "done". */
class FakeModel implements Model {
  readonly requests: ModelRequest[] = []
  readonly #call: protocol.OutputModelItem

  constructor(call: protocol.OutputModelItem) {
    this.#call = call
  }

  async getResponse(request: ModelRequest): Promise<ModelResponse> {
    this.requests.push(request)
    const done: protocol.AssistantMessageItem = {
      type: 'message',
      role: 'assistant',
      status: 'completed',
      content: [{ type: 'output_text', text: 'done' }],
    }
    return { usage: new Usage(), output: [this.requests.length === 1 ? this.#call : done] }
  }

  getStreamedResponse(): never {
    throw new Error('nothing is streamed here')
  }

  /** The result of the call, as the model reads it. */
  get toolOutput(): ToolOutput {
    return (this.requests[1]!.input as unknown as ToolOutput[]).at(-1)!
  }
}

const runner = new Runner({ tracingDisabled: true })
const callOf = (name: string, args: object): protocol.FunctionCallItem => ({
  type: 'function_call',
  callId: 'call-1',
  name,
  status: 'completed',
  arguments: JSON.stringify(args),
})

const readTool = (ran: string[]) =>
  tool({
    name: 'file_read',
    description: 'reads a file',
    parameters: z.object({ path: z.string() }),
    execute: async ({ path }) => {
      ran.push(path)
      return readFile(path)
    },
  })

const takeTurn = async (monitor: Monitor, path: string) => {
  const ran: string[] = []
  const model = new FakeModel(callOf('file_read', { path }))
  const agent = reportAnswers(
    monitor,
    new Agent({ name: 'reader', model, tools: guardTools(monitor, [readTool(ran)]) }),
  )
  await runner.run(agent, 'read it')
  return { ran, output: (model.toolOutput.output as { text: string }).text }
}
describeAdapter('the OpenAI Agents SDK', takeTurn, 'file_read', 'done')

test('reports the answers of all agents of a runner', async () => {
  const own = reportAnswers(active, new Runner({ tracingDisabled: true }), { sessionId: 'thread-9' })
  await own.run(
    new Agent({ name: 'reader', model: new FakeModel(callOf('file_read', { path: 'a.txt' })), tools: [readTool([])] }),
    'read it',
  )
  await active.flush()
  expect(await fleet.events('model_answer')).toMatchObject([
    { session_id: 'thread-9', metadata: { result: { length: 4 } } },
  ])
})

let fleet: TestFleet
let active: Monitor
let suspended: Monitor
beforeAll(async () => {
  ;({ fleet, active, suspended } = await openTwoMonitors())
})
afterAll(() => fleet[Symbol.asyncDispose]())

const lastCall = async () => {
  await active.flush()
  return (await fleet.events('tool_call'))[0]
}
const suspension = denied('This agent is suspended (test). It must stop here and not retry.')

test('guards shellTool()', async () => {
  const commands: string[][] = []
  const shell = shellTool({
    shell: {
      run: async ({ commands: given }) => {
        commands.push(given)
        return { output: [{ stdout: 'a.txt', stderr: '', outcome: { type: 'exit', exitCode: 0 } }] }
      },
    },
  })
  const list = async (monitor: Monitor) => {
    const model = new FakeModel({
      type: 'shell_call',
      callId: 'call-1',
      status: 'completed',
      action: { commands: ['ls'] },
    })
    await runner.run(new Agent({ name: 'lister', model, tools: guardTools(monitor, [shell]) }), 'list')
    return (model.toolOutput.output as { stdout: string; stderr: string; outcome: object }[])[0]!
  }
  const toolOutput = await list(suspended)
  expect(readDenial(toolOutput.stderr)).toEqual(suspension)
  expect(toolOutput).toMatchObject({ stdout: '', outcome: { type: 'exit', exitCode: 1 } })
  expect(commands).toEqual([])
  expect(await list(active)).toMatchObject({ stdout: 'a.txt' })
  expect(commands).toEqual([['ls']])
  expect(await lastCall()).toMatchObject({ metadata: { toolName: 'shell', ok: true, params: { commands: ['ls'] } } })
})

test('guards applyPatchTool()', async () => {
  const edited: string[] = []
  const edit = async ({ path }: { path: string }) => {
    edited.push(path)
    return { output: 'edited' }
  }
  const patch = applyPatchTool({ editor: { createFile: edit, updateFile: edit, deleteFile: edit } })
  const remove = async (monitor: Monitor) => {
    const operation = { type: 'delete_file', path: 'a.txt' } as const
    const model = new FakeModel({ type: 'apply_patch_call', callId: 'call-1', status: 'completed', operation })
    await runner.run(new Agent({ name: 'remover', model, tools: guardTools(monitor, [patch]) }), 'remove')
    return model.toolOutput
  }
  const toolOutput = await remove(suspended)
  expect([toolOutput.status, readDenial(toolOutput.output)]).toEqual(['failed', suspension])
  expect(edited).toEqual([])
  expect(await remove(active)).toMatchObject({ status: 'completed', output: 'edited' })
  expect(edited).toEqual(['a.txt'])
  expect(await lastCall()).toMatchObject({ metadata: { toolName: 'apply_patch', ok: true } })
})

test('guards an agent used as a tool', async () => {
  const inner = new FakeModel(callOf('file_read', { path: 'a.txt' }))
  const reader = new Agent({ name: 'reader', model: inner })
  const tools = guardTools(suspended, [reader.asTool({ toolName: 'ask_reader', toolDescription: 'reads' })])
  const model = new FakeModel(callOf('ask_reader', { input: 'read it' }))
  await runner.run(new Agent({ name: 'boss', model, tools }), 'have it read')
  expect(inner.requests).toEqual([])
  expect(readDenial((model.toolOutput.output as { text: string }).text)).toEqual(suspension)
})

// Otherwise an approval rule would get other arguments than the tool.
test('passes unchanged arguments to an approval rule', async () => {
  const asked: unknown[] = []
  const pay = tool({
    name: 'pay',
    description: 'pays',
    parameters: z.object({ amount: z.string().trim() }),
    needsApproval: async (_context, { amount }) => {
      asked.push(amount)
      return false
    },
    execute: async ({ amount }) => amount,
  })
  const model = new FakeModel(callOf('pay', { amount: ' 250 ' }))
  await runner.run(new Agent({ name: 'payer', model, tools: guardTools(active, [pay]) }), 'pay')
  expect(asked).toEqual(['250'])
  expect(await lastCall()).toMatchObject({ metadata: { toolName: 'pay', ok: true, params: { amount: ' 250 ' } } })
})

test('ends the run on a denial if the output schema of the tool has no room for it', async () => {
  let runs = 0
  const count = tool({
    name: 'count',
    description: 'counts',
    parameters: z.object({}),
    outputSchema: z.object({ files: z.number() }),
    execute: async () => ({ files: ++runs }),
  })
  const run = (monitor: Monitor) =>
    runner.run(
      new Agent({ name: 'counter', model: new FakeModel(callOf('count', {})), tools: guardTools(monitor, [count]) }),
      'count',
    )
  await expect(run(suspended)).rejects.toThrow(/"denied":true/)
  expect(runs).toBe(0)
  await run(active)
  expect(runs).toBe(1)
})
