import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createMonitor, WardlineDenied } from '@wardline/sdk'
import { expect } from 'vitest'
import { newDataDir, type Service } from './service.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const agentProgram = join(root, 'packages/sdk/src/wardline-agent.ts')
/** Finds the sources of other packages, which are not built here. */
const fromSources = ['--conditions=wardline-source']
const compileCache = join(root, 'node_modules/.cache/wardline-agent')

export type Call = [tool: string, params: unknown]

/** What the tools of all clients return: calls that name a backup get a secret. */
export const secret = 'aws_access_key_id = AKIAIOSFODNN7EXAMPLE'
const resultOf = (params: unknown): string => (JSON.stringify(params).includes('backup') ? secret : 'done')

interface Agent {
  service: Service
  key: string
  instanceId: string
}

/** Makes calls by a real client. A call that the client denies is passed over, as an agent would. */
export type Client = (agent: Agent, calls: Call[]) => Promise<void>

interface Run {
  cwd: string
  env: object
  input: string
  codes?: number[]
}

async function runProgram(args: string[], { cwd, env, input, codes = [0] }: Run) {
  const child = spawn(args[0]!, args.slice(1), {
    cwd,
    env: { PATH: process.env.PATH ?? '', HOME: cwd, NODE_COMPILE_CACHE: compileCache, ...env },
  })
  let said = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (said += text))
  child.stdin.on('error', () => {}).end(input)
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve))
  expect(codes, said).toContain(code)
  return said
}

const settings = ({ service, key, instanceId }: Agent) => ({
  WARDLINE_URL: service.baseUrl,
  WARDLINE_KEY: key,
  WARDLINE_INSTANCE_ID: instanceId,
})

const monitorOf = ({ service, key, instanceId }: Agent) => createMonitor({ url: service.baseUrl, key, instanceId })

export const bySdk: Client = async (agent, calls) => {
  const monitor = monitorOf(agent)
  await monitor.start()
  for (const [tool, params] of calls) {
    await monitor
      .guardTool(tool, async (given: unknown) => resultOf(given))(params)
      .catch((fault) => {
        if (!(fault instanceof WardlineDenied)) throw fault
      })
  }
  await monitor.stop()
}

const runHook = async (home: string, agent: Agent, call: object) => {
  const input = JSON.stringify({ session_id: 's', cwd: home, ...call })
  // 2: denied.
  const run = { cwd: home, env: settings(agent), input, codes: [0, 2] }
  return runProgram([process.execPath, ...fromSources, agentProgram, 'hook'], run)
}

export const byHook: Client = async (agent, calls) => {
  const home = newDataDir()
  for (const [tool_name, tool_input] of calls) {
    await runHook(home, agent, { hook_event_name: 'PreToolUse', tool_name, tool_input })
  }
}

/** As byHook, then with the hooks after the calls. */
export const byHooks: Client = async (agent, calls) => {
  await byHook(agent, calls)
  const home = newDataDir()
  for (const [tool_name, tool_input] of calls) {
    const tool_response = { stdout: resultOf(tool_input), interrupted: false }
    await runHook(home, agent, { hook_event_name: 'PostToolUse', tool_name, tool_input, tool_response })
  }
}

/** The proxy in front of a server that returns `text` to calls that name a backup. */
export const byProxyReturning =
  (text: string): Client =>
  async (agent, calls) => {
    const home = newDataDir()
    const server = join(home, 'server.js')
    writeFileSync(
      server,
      `const lines = require('node:readline').createInterface({ input: process.stdin })
lines.on('line', (line) => {
  const { id } = JSON.parse(line)
  const text = line.includes('backup') ? ${JSON.stringify(text)} : 'done'
  console.log(JSON.stringify({ jsonrpc: '2.0', id, result: { content: [{ type: 'text', text }] } }))
})`,
    )
    const messages = calls.map(([name, args], id) => ({
      jsonrpc: '2.0',
      id,
      method: 'tools/call',
      params: { name, arguments: args },
    }))
    const input = `${messages.map((message) => JSON.stringify(message)).join('\n')}\n`
    const args = [process.execPath, ...fromSources, agentProgram, 'mcp-proxy', '--', process.execPath, server]
    await runProgram(args, { cwd: home, env: settings(agent), input })
  }
export const byProxy = byProxyReturning(secret)

const agentOfPython = `
import json, os, sys
from wardline import Denied, Monitor
with Monitor(os.environ['WARDLINE_URL'], os.environ['WARDLINE_KEY'], os.environ['WARDLINE_INSTANCE_ID'], 'Rules') as monitor:
    @monitor.guard_tool('file-read')
    def read(path): return '${secret}' if 'backup' in path else 'done'
    @monitor.guard_tool('http-request')
    def request(url): return 'done'
    @monitor.guard_tool('shell-exec')
    def run(command): return 'done'
    for tool, params in json.load(sys.stdin):
        try:
            {'file-read': read, 'http-request': request, 'shell-exec': run}[tool](params)
        except Denied:
            pass
`
const inPython = async (program: string, agent: Agent, calls: (Call | Output)[]) => {
  const env = { ...settings(agent), PYTHONPATH: join(root, 'clients/python'), PYTHONDONTWRITEBYTECODE: '1' }
  await runProgram(['python3', '-c', program], { cwd: newDataDir(), env, input: JSON.stringify(calls) })
}

export const byPython: Client = (agent, calls) => inPython(agentOfPython, agent, calls)

/** Clients that report calls without checking them. */
export const reportingBySdk: Client = async (agent, calls) => {
  const monitor = monitorOf(agent)
  await monitor.start()
  for (const [toolName, params] of calls) await monitor.reportToolCall({ toolName, params })
  await monitor.stop()
}

const reporterOfPython = `
import json, os, sys
from wardline import Monitor
with Monitor(os.environ['WARDLINE_URL'], os.environ['WARDLINE_KEY'], os.environ['WARDLINE_INSTANCE_ID'], 'Rules') as monitor:
    for tool, params in json.load(sys.stdin):
        monitor.report_tool_call(tool, params={'path': params})
`
export const reportingByPython: Client = (agent, calls) => inPython(reporterOfPython, agent, calls)

export const reportingByCurl: Client = async (agent, calls) => {
  const { WARDLINE_URL: url, WARDLINE_KEY: key } = settings(agent)
  const send = (route: string, body: object) =>
    runProgram(
      ['curl', '-sS', '--fail-with-body', `${url}/api/${route}`, '-H', `X-Monitor-Key: ${key}`].concat([
        '-H',
        'Content-Type: application/json',
        '-d',
        '@-',
      ]),
      { cwd: newDataDir(), env: {}, input: JSON.stringify(body) },
    )
  await send('heartbeat', { instance_id: agent.instanceId, name: agent.instanceId })
  for (const [toolName, path] of calls) {
    await send('events', {
      severity: 'info',
      source: agent.instanceId,
      event_type: 'tool_call',
      description: toolName,
      instance_id: agent.instanceId,
      metadata: { toolName, action: 'read', paths: [path] },
    })
  }
}

/** What a tool returned, or what the model answered. */
type Output = ['result' | 'answer', text: string]
/** Reports outputs by a real client. */
export type Outputs = (agent: Agent, outputs: Output[]) => Promise<void>

export const outputsBySdk: Outputs = async (agent, outputs) => {
  const monitor = monitorOf(agent)
  await monitor.start()
  for (const [of, text] of outputs) {
    if (of === 'result') await monitor.reportToolCall({ toolName: 'Grep', params: { path: '.' }, result: text })
    else await monitor.reportAnswer({ answer: text })
  }
  await monitor.stop()
}

export const outputsByHook: Outputs = async (agent, outputs) => {
  const home = newDataDir()
  for (const [of, text] of outputs) {
    const event =
      of === 'result'
        ? {
            hook_event_name: 'PostToolUse',
            tool_name: 'Grep',
            tool_input: { path: '.' },
            tool_response: { stdout: text },
          }
        : { hook_event_name: 'Stop', stop_hook_active: false, last_assistant_message: text }
    expect(await runHook(home, agent, event)).toBe('')
  }
}

const outputsInPython = `
import json, os, sys
from wardline import Monitor
with Monitor(os.environ['WARDLINE_URL'], os.environ['WARDLINE_KEY'], os.environ['WARDLINE_INSTANCE_ID'], 'Rules') as monitor:
    for of, text in json.load(sys.stdin):
        if of == 'result':
            monitor.report_tool_call('Grep', params={'path': '.'}, result=text)
        else:
            monitor.report_answer(text)
`
export const outputsByPython: Outputs = (agent, outputs) => inPython(outputsInPython, agent, outputs)
