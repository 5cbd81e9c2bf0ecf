import { AIMessage, ToolMessage } from '@langchain/core/messages'
import { ToolNode } from '@langchain/langgraph/prebuilt'
import { createAgent, createMiddleware, fakeModel, tool } from 'langchain'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { guardMiddleware, guardTools } from './langchain-v1.ts'
import type { Monitor } from './monitor.ts'
import { denied, describeAdapter, openTwoMonitors, readDenial, readFile } from './testing/adapter.ts'
import type { TestFleet } from './testing/service.ts'

const schema = z.object({ path: z.string() })

/** Creates a tool that records its arguments. */
const readTool = (ran: string[]) =>
  tool(
    ({ path }) => {
      ran.push(path)
      return readFile(path)
    },
    { name: 'file-read', description: 'reads a file', schema },
  )

const callOf = (path: string) => ({ id: 'call-1', name: 'file-read', args: { path } })
/** Model that calls a tool once, then answers "done". */
const modelThat = (path: string) =>
  fakeModel()
    .respondWithTools([callOf(path)])
    .respond(new AIMessage('done'))
const resultOf = ({ messages }: { messages: unknown[] }) =>
  messages.find((message): message is ToolMessage => ToolMessage.isInstance(message))

describeAdapter(
  'the middleware of LangChain',
  async (monitor, path) => {
    const ran: string[] = []
    const agent = createAgent({
      model: modelThat(path),
      tools: [readTool(ran)],
      middleware: [guardMiddleware(monitor)],
    })
    return { ran, output: resultOf(await agent.invoke({ messages: 'read it' }))?.content }
  },
  'file-read',
  'done',
  true,
)

describeAdapter('tools of LangChain', async (monitor, path) => {
  const ran: string[] = []
  const agent = createAgent({ model: modelThat(path), tools: guardTools(monitor, [readTool(ran)]) })
  return { ran, output: resultOf(await agent.invoke({ messages: 'read it' }))?.content }
})

describeAdapter('a tool node of LangGraph', async (monitor, path) => {
  const ran: string[] = []
  const node = new ToolNode(guardTools(monitor, [readTool(ran)]))
  const messages = [new AIMessage({ content: '', tool_calls: [callOf(path)] })]
  return { ran, output: resultOf(await node.invoke({ messages }))?.content }
})

let fleet: TestFleet
let active: Monitor
let suspended: Monitor
beforeAll(async () => {
  ;({ fleet, active, suspended } = await openTwoMonitors())
})
afterAll(() => fleet[Symbol.asyncDispose]())

test('reports the thread id of the conversation as the session', async () => {
  const config = { configurable: { thread_id: 'thread-7' } }
  const lastSession = async () => {
    await active.flush()
    return (await fleet.events('tool_call'))[0]?.session_id
  }
  const wrapped = createAgent({ model: modelThat('a.txt'), tools: guardTools(active, [readTool([])]) })
  await wrapped.invoke({ messages: 'read it' }, config)
  expect(await lastSession()).toBe('thread-7')
  const middleware = [guardMiddleware(active)]
  const watched = createAgent({ model: modelThat('a.txt'), tools: [readTool([])], middleware })
  await watched.invoke({ messages: 'read it' }, { configurable: { thread_id: 'thread-8' } })
  expect(await lastSession()).toBe('thread-8')
})

test.each(['before', 'after'])('guards a tool that is added by a middleware %s it', async (place) => {
  const ran: string[] = []
  const bringer = createMiddleware({
    name: 'bringer',
    wrapToolCall: (request, handler) => handler({ ...request, tool: request.tool ?? readTool(ran) }),
  })
  const read = async (monitor: Monitor) => {
    const guard = guardMiddleware(monitor)
    const middleware = place === 'before' ? [bringer, guard] : [guard, bringer]
    const agent = createAgent({ model: modelThat('a.txt'), tools: [], middleware })
    return resultOf(await agent.invoke({ messages: 'read it' }))?.content
  }
  expect(readDenial(await read(suspended))).toEqual(denied(expect.stringContaining('suspended')))
  expect(ran).toEqual([])
  expect(await read(active)).toBe('the content of a.txt')
})

test('lets LangChain handle the error of a guarded tool', async () => {
  const tools = [[readTool([])], guardTools(active, [readTool([])])] as const
  const results = tools.map(async (tools) => {
    const agent = createAgent({ model: modelThat('missing.txt'), tools: [...tools] })
    const result = resultOf(await agent.invoke({ messages: 'read it' }))
    return [result?.content, result?.status]
  })
  const [bare, guarded] = await Promise.all(results)
  expect(guarded).toEqual(bare)
  expect(guarded).toEqual([expect.stringContaining('there is no such file'), 'error'])
})

test('preserves class, schema and methods of a guarded tool', async () => {
  const bare = readTool([])
  const [guarded] = guardTools(active, [bare])
  expect(guarded).toBeInstanceOf(bare.constructor)
  expect([guarded!.name, guarded!.description, guarded!.schema]).toEqual([bare.name, bare.description, bare.schema])
  expect(await guarded!.batch([{ path: 'a.txt' }, { path: 'b.txt' }])).toEqual([
    'the content of a.txt',
    'the content of b.txt',
  ])
  const [stillGuarded] = guardTools(suspended, [bare])
  const [output] = await stillGuarded!.batch([{ path: 'a.txt' }])
  expect(readDenial(output)).toEqual(denied(expect.stringContaining('suspended')))
  const ofProvider = { type: 'web_search' }
  expect(guardTools(active, [ofProvider])[0]).toBe(ofProvider)
})
