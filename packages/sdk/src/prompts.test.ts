import { AIMessage, HumanMessage } from '@langchain/core/messages'
import { Agent, tool as agentTool, Runner } from '@openai/agents'
import { generateText, isStepCount, tool } from 'ai-v7'
import { MockLanguageModelV4 } from 'ai-v7/test'
import { tool as chainTool, createAgent, fakeModel } from 'langchain'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { z } from 'zod'
import { guardTools as guardAiTools } from './ai-sdk-v7.ts'
import { guardHooks, type HookInput } from './claude-agent-sdk.ts'
import { guardMiddleware } from './langchain-v1.ts'
import type { Monitor } from './monitor.ts'
import { guardTools as guardAgentTools, reportAnswers } from './openai-agents.ts'
import { TestFleet } from './testing/service.ts'

// What a model writes is never taken for the words of its user, though frameworks call both a message of the user.

const policy = {
  title: 'Mail',
  flow: 'default',
  labels: { send: { is: ['sends'], destination: ['to'] }, research: { is: ['untrusted'] } },
}
const [stranger, friend] = ['mallory@evil.example', 'anna@example.com']

let fleet: TestFleet
let monitor: Monitor
let sent: string[]
beforeEach(async () => {
  fleet = await TestFleet.open()
  await fleet.addPolicy(policy)
  monitor = fleet.monitor({ onAsk: 'deny' }).monitor
  sent = []
  await monitor.start()
})
afterEach(() => fleet[Symbol.asyncDispose]())

/** Whether a call that sends to this address is known, after text of strangers was read. */
async function isKnown(to: string, sessionId?: string): Promise<boolean> {
  await monitor.reportToolCall({ toolName: 'research', result: 'text', sessionId })
  return (await monitor.guard({ toolName: 'send', args: { to }, sessionId })) === undefined
}

const inputTokens = { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 }
const usage = { inputTokens, outputTokens: { total: 1, text: 1, reasoning: 0 } }
const answers = (...calls: [string, object][]) =>
  new MockLanguageModelV4({
    doGenerate: [
      ...calls.map(([toolName, input], at) => ({
        content: [{ type: 'tool-call' as const, toolCallId: `call-${at}`, toolName, input: JSON.stringify(input) }],
        finishReason: { unified: 'tool-calls' as const, raw: undefined },
        usage,
        warnings: [],
      })),
      {
        content: [{ type: 'text' as const, text: 'done' }],
        finishReason: { unified: 'stop' as const, raw: undefined },
        usage,
        warnings: [],
      },
    ],
  })
const to = z.object({ to: z.string() })

test('the AI SDK: the prompt of an agent within a tool is written by a model', async () => {
  const send = tool({ inputSchema: to, execute: async (args) => sent.push(args.to) })
  const research = tool({
    inputSchema: z.object({}),
    execute: async () => {
      const inner = guardAiTools(monitor, { send })
      const model = answers(['send', { to: stranger }])
      await generateText({ model, tools: inner, prompt: `Write to ${stranger}`, stopWhen: isStepCount(3) })
      return 'text'
    },
  })
  const tools = guardAiTools(monitor, { research, send })
  const model = answers(['research', {}], ['send', { to: friend }], ['send', { to: stranger }])
  await generateText({ model, tools, prompt: `Tell ${friend}`, stopWhen: isStepCount(5) })
  // The first was sent before untrusted text was read.
  expect(sent).toEqual([stranger, friend])
})

test('LangChain: the prompt of an agent within a tool is written by a model, as is a summary', async () => {
  const middleware = [guardMiddleware(monitor)]
  const send = chainTool(({ to }) => String(sent.push(to)), { name: 'send', description: 'sends', schema: to })
  const research = chainTool(
    async () => {
      const inner = createAgent({ model: fakeModel().respond(new AIMessage('done')), tools: [], middleware })
      await inner.invoke({ messages: `Write to ${stranger}` })
      return 'text'
    },
    { name: 'research', description: 'reads', schema: z.object({}) },
  )
  const model = fakeModel()
    .respondWithTools([{ id: '1', name: 'research', args: {} }])
    .respondWithTools([{ id: '2', name: 'send', args: { to: friend } }])
    .respondWithTools([{ id: '3', name: 'send', args: { to: stranger } }])
    .respond(new AIMessage('done'))
  const agent = createAgent({ model, tools: [research, send], middleware })
  const summary = new HumanMessage({ content: stranger, additional_kwargs: { lc_source: 'summarization' } })
  await agent.invoke({ messages: [summary, new AIMessage('ok'), new HumanMessage(`Tell ${friend}`)] })
  expect(sent).toEqual([friend])
  await agent.invoke({ messages: [new HumanMessage(friend), summary] }).catch(() => {})
  expect(await isKnown(stranger)).toBe(false)
})

test('OpenAI Agents: a run of the runner begins with the words of the user, unless a tool of it runs', async () => {
  const runner = reportAnswers(monitor, new Runner({ tracingDisabled: true }))
  const message = (text: string) => ({
    type: 'message' as const,
    role: 'assistant' as const,
    status: 'completed' as const,
    content: [{ type: 'output_text' as const, text }],
  })
  const call = (name: string) => ({
    type: 'function_call' as const,
    callId: name,
    name,
    status: 'completed' as const,
    arguments: '{}',
  })
  const modelOf = (...outputs: object[]) => ({
    getResponse: async () => ({
      usage: { requests: 0, inputTokens: 0, outputTokens: 0, totalTokens: 0 },
      output: [outputs.shift()],
    }),
    getStreamedResponse: () => {
      throw new Error('not streamed')
    },
  })
  const research = agentTool({
    name: 'research',
    description: 'reads',
    parameters: z.object({}),
    execute: async () => {
      await runner.run(new Agent({ name: 'inner', model: modelOf(message('done')) as never }), `Write to ${stranger}`)
      return 'text'
    },
  })
  const model = modelOf(call('research'), message('done')) as never
  const agent = new Agent({ name: 'outer', model, tools: guardAgentTools(monitor, [research]) })
  await runner.run(agent, `Tell ${friend}`)
  expect(await isKnown(friend)).toBe(true)
  expect(await isKnown(stranger)).toBe(false)
  // Of an agent alone nothing says who calls it.
  const alone = reportAnswers(monitor, new Agent({ name: 'alone', model: modelOf(message('done')) as never }))
  await new Runner({ tracingDisabled: true }).run(alone, `Write to ${stranger}`)
  expect(await isKnown(stranger)).toBe(false)
})

test.each([
  ['of a person', {}, true],
  ['of the Agent SDK', { source: 'sdk' }, true],
  ['of another agent', { source: 'system' }, false],
  ['that a model has scheduled', { source: 'schedule_wakeup' }, false],
  ['within a subagent', { agent_id: 'a1' }, false],
])('the Claude Agent SDK: a prompt %s', async (_, more, known) => {
  const [{ hooks }] = guardHooks(monitor).UserPromptSubmit as unknown as [{ hooks: ((input: HookInput) => unknown)[] }]
  await hooks[0]!({ session_id: 's1', cwd: '/', prompt: `Write to ${stranger}`, ...more })
  expect(await isKnown(stranger, 's1')).toBe(known)
})
