import { fileURLToPath } from 'node:url'
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { AgentHome } from '../testing/agent-command.ts'
import { agentId, eventually, TestFleet } from '../testing/service.ts'

// Client and server use the real MCP packages; the proxy runs between them as a process.
const slow = { timeout: 60_000 }

const program = fileURLToPath(new URL('../wardline-agent.ts', import.meta.url))
const server = fileURLToPath(new URL('../testing/mcp-server.ts', import.meta.url))
const notAllowed = 'The security monitor of this agent does not allow this call. Do not retry it.'

let fleet: TestFleet
let decoyKey: string
beforeAll(async () => {
  fleet = await TestFleet.open()
  decoyKey = await fleet.plantKey('openai')
  await fleet.plantPath('/home/anna/.aws/credentials')
}, 60_000)
afterAll(() => fleet[Symbol.asyncDispose]())

const newHome = () =>
  new AgentHome({ WARDLINE_URL: fleet.wire.url, WARDLINE_KEY: fleet.agentKey, WARDLINE_INSTANCE_ID: agentId })

async function connect(mode: 'legacy' | 'auto', env: Record<string, string> = {}) {
  const home = newHome()
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: ['--conditions=wardline-source', program, 'mcp-proxy', '--', process.execPath, server],
    env: { ...home.env, ...env },
    cwd: home.folder,
    stderr: 'pipe',
    maxBufferSize: 64 * 1024 * 1024,
  })
  const client = new Client({ name: 'test', version: '1.0.0' }, { versionNegotiation: { mode } })
  let said = ''
  transport.stderr?.on('data', (text) => {
    said += text
  })
  await client.connect(transport)
  onTestFinished(() => client.close())
  const call = async (name: string, args: Record<string, unknown> = {}) => {
    const { content, isError } = await client.callTool({ name, arguments: args })
    return { text: (content as { text: string }[])[0]?.text, isError: isError === true }
  }
  return { client, call, stderr: () => said, pid: transport.pid }
}

/** Returns the report of a call whose arguments contain `said`. */
const reported = (toolName: string, said = '') =>
  eventually(async () => {
    const calls = (await fleet.events('tool_call')).filter(({ metadata }) => metadata?.toolName === toolName)
    const event = calls.find(({ metadata }) => JSON.stringify(metadata?.params).includes(said))
    expect(event).toBeDefined()
    return event!
  })

// Both generations of the protocol: the proxy's own answers must be valid in each.
describe.each(['legacy', 'auto'] as const)('between a client (%s) and a server', slow, (mode) => {
  test('an allowed call reaches the server, and is reported with its outcome', async () => {
    const { client, call } = await connect(mode)
    expect((await client.listTools()).tools.map(({ name }) => name)).toContain('echo')
    const said = `hello ${mode}`
    expect(await call('echo', { said })).toEqual({ text: said, isError: false })
    expect(await reported('echo', said)).toMatchObject({
      instance_id: agentId,
      metadata: { ok: true, durationMs: expect.any(Number), params: { said } },
    })
    expect(await call('fail')).toEqual({ text: 'no', isError: true })
    expect(await reported('fail')).toMatchObject({ metadata: { ok: false } })
  })

  test('a decoy in the arguments never reaches the server', async () => {
    const { call } = await connect(mode)
    const known = (await fleet.events('honeypot_triggered')).length
    for (const said of [`Bearer ${decoyKey}`, 'cat ~/.aws/credentials']) {
      expect(await call('echo', { said })).toEqual({ text: notAllowed, isError: true })
    }
    expect(await call('calls')).toEqual({ text: '0', isError: false })
    expect((await fleet.events('honeypot_triggered')).length).toBe(known + 2)
    expect(JSON.stringify(await fleet.events('tool_call'))).not.toContain(decoyKey)
  })

  test('a suspension blocks tool calls, and nothing else, until it is lifted', async () => {
    const { client, call } = await connect(mode)
    expect(await call('echo', { said: 'before' })).toMatchObject({ isError: false })
    await fleet.kill('exfiltration')
    try {
      await eventually(async () => expect((await fleet.instance()).control.confirmed).toBe(true))
      expect(await call('echo', { said: 'after' })).toEqual({
        text: 'This agent is suspended (exfiltration). It must stop here and not retry.',
        isError: true,
      })
      expect((await client.listTools()).tools.length).toBeGreaterThan(0)
    } finally {
      await fleet.resume()
    }
    await eventually(async () => expect(await call('calls')).toEqual({ text: '1', isError: false }))
  })

  test('concurrent calls get their own answers, and do not wait for each other', async () => {
    const { call } = await connect(mode)
    const unanswered = call('never').catch(() => 'never')
    const said = Array.from({ length: 50 }, (_, place) => `message ${place}`)
    const answers = await Promise.all(said.map((text) => call('echo', { said: text })))
    expect(answers.map(({ text }) => text)).toEqual(said)
    const denied = await Promise.all([call('echo', { said: decoyKey }), call('echo', { said: 'fine' })])
    expect(denied).toEqual([
      { text: notAllowed, isError: true },
      { text: 'fine', isError: false },
    ])
    expect(await Promise.race([unanswered, Promise.resolve('still waiting')])).toBe('still waiting')
  })

  test('a call too large to compare with decoys is denied in every fail mode', async () => {
    const said = 'some words '.repeat(500_000)
    for (const WARDLINE_FAIL_MODE of ['open', 'closed']) {
      const { call } = await connect(mode, { WARDLINE_FAIL_MODE })
      expect(await call('echo', { said })).toMatchObject({
        isError: true,
        text: expect.stringContaining('the maximum is 4 MiB'),
      })
      expect(await call('calls')).toEqual({ text: '0', isError: false })
    }
  })

  test('the proxy exits when its server crashes', async () => {
    const { client, call, stderr } = await connect(mode)
    const closed = new Promise<void>((resolve) => {
      client.onclose = resolve
    })
    await expect(call('crash')).rejects.toThrow()
    await closed
    expect(stderr()).toContain('about to crash')
    expect(await reported('crash')).toMatchObject({ metadata: { ok: false } })
  })
})
