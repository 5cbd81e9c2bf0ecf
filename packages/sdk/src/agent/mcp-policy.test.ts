import { fileURLToPath } from 'node:url'
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { afterAll, afterEach, beforeAll, expect, onTestFinished, test } from 'vitest'
import { AgentHome } from '../testing/agent-command.ts'
import { agentId, eventually, TestFleet } from '../testing/service.ts'

// Policies in the MCP proxy, between the real client and server.
const slow = { timeout: 60_000 }
const program = fileURLToPath(new URL('../wardline-agent.ts', import.meta.url))
const server = fileURLToPath(new URL('../testing/mcp-server.ts', import.meta.url))

let fleet: TestFleet
let stored: string | undefined
beforeAll(async () => {
  fleet = await TestFleet.open()
}, 60_000)
afterEach(async () => {
  if (stored) await fleet.removePolicy(stored)
  stored = undefined
})
afterAll(() => fleet[Symbol.asyncDispose]())

// A call that a person has denied stays denied for a while, so each test has its own arguments.
async function connect(policy: object, env: Record<string, string> = {}) {
  stored = (await fleet.addPolicy(policy)).id
  const home = new AgentHome({
    WARDLINE_URL: fleet.wire.url,
    WARDLINE_KEY: fleet.agentKey,
    WARDLINE_INSTANCE_ID: agentId,
  })
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: ['--conditions=wardline-source', program, 'mcp-proxy', '--', process.execPath, server],
    env: { ...home.env, ...env },
    cwd: home.folder,
    stderr: 'pipe',
  })
  const client = new Client({ name: 'test', version: '1.0.0' })
  await client.connect(transport)
  onTestFinished(() => client.close())
  const call = async (name: string, said: string, options: object = {}) => {
    const { content, isError } = await client.callTool({ name, arguments: { said } }, options as never)
    return { text: (content as { text: string }[])[0]!.text, isError: isError === true }
  }
  return { client, call }
}

const ask = { title: 'Echo', rules: [{ title: 'Ask first', decision: 'ask', match: { tool: 'echo' } }] }

test('a rule denies a call before the server has it', slow, async () => {
  const rules = [{ title: 'Never', decision: 'deny', match: { tool: 'echo' }, when: { said: 'secret' } }]
  const { call } = await connect({ title: 'Echo', rules })
  expect(await call('echo', 'secret')).toEqual({
    text: 'The policy of this agent denies this call (Never). Do not retry it.',
    isError: true,
  })
  expect(await call('echo', 'hello')).toEqual({ text: 'hello', isError: false })
  expect(await call('calls', '')).toEqual({ text: '1', isError: false })
})

test('a call waits for a person with notifications of progress, and others do not wait for it', slow, async () => {
  const { call } = await connect(ask)
  const progress: { message?: string }[] = []
  const waiting = call('echo', 'hello', { onprogress: (one: object) => progress.push(one) })
  const { id } = await fleet.pendingApproval()
  expect(await call('calls', '')).toEqual({ text: '0', isError: false })
  await eventually(() => expect(progress[0]?.message).toBe(`Waiting for a person: approval ${id}`))
  await fleet.decide(id, 'approve')
  expect(await waiting).toEqual({ text: 'hello', isError: false })
  const refused = call('echo', 'hello', { onprogress: () => {} })
  await fleet.decide((await fleet.pendingApproval()).id, 'deny', { reason: 'no' })
  expect(await refused).toMatchObject({ isError: true, text: expect.stringContaining('It was denied (no).') })
  expect(await call('calls', '')).toEqual({ text: '1', isError: false })
})

test('a client that shows no progress reads the id of the approval, and its retry takes it', slow, async () => {
  const { call } = await connect(ask)
  const denied = await call('echo', 'hello retry')
  const { id } = await fleet.pendingApproval()
  expect(denied).toEqual({ text: `Denied: approval ${id} is pending. Retry the same call later.`, isError: true })
  await fleet.decide(id, 'approve')
  expect(await call('echo', 'hello retry')).toEqual({ text: 'hello retry', isError: false })
})

test('with WARDLINE_ON_ASK=deny no call waits', slow, async () => {
  const { call } = await connect(ask, { WARDLINE_ON_ASK: 'deny' })
  const denied = await call('echo', 'hello deny', { onprogress: () => {} })
  expect(denied.text).toMatch(/is pending. Retry the same call later.$/)
  await fleet.decide((await fleet.pendingApproval()).id, 'deny')
})

test('a call that its client has cancelled does not run once it is approved', slow, async () => {
  const { call } = await connect(ask)
  const gone = new AbortController()
  const waiting = call('echo', 'hello cancel', { onprogress: () => {}, signal: gone.signal }).catch(() => 'cancelled')
  const { id } = await fleet.pendingApproval()
  gone.abort()
  expect(await waiting).toBe('cancelled')
  await fleet.decide(id, 'approve')
  // Only one call can take the approval: this one.
  expect(await call('echo', 'hello cancel')).toEqual({ text: 'hello cancel', isError: false })
  expect(await call('calls', '')).toEqual({ text: '1', isError: false })
})

// Its tools are labelled by what the server lists: no hint makes a tool that sends a harmless one.
test('after a tool that reads, a tool of which nothing is known is asked about', slow, async () => {
  const { client, call } = await connect({ title: 'Flow', flow: 'default' })
  await client.listTools()
  expect(await call('echo', 'hello')).toEqual({ text: 'hello', isError: false })
  expect((await call('echo', 'mallory@evil.example')).text).toMatch(/is pending/)
})
