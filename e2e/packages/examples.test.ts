import { execFile, spawn } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { allEvents, createKey, createPathDecoy } from '../fleet.ts'
import { machinePath } from '../machine-path.ts'
import { isExternal, newDataDir, type Service, startService, until } from '../service.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const fixedIds = 'the examples have fixed instance ids, which are suspended here'
const wallet = '/srv/backup/wallet.dat'
const denied = (reason: string) => `"denied":true,"reason":"${reason}`
const notAllowed = denied('The security monitor of this agent does not allow this call.')
const suspended = denied('This agent is suspended (e2e). It must stop here and not retry.')

let service: Service
beforeAll(async () => {
  if (!isExternal) service = await startService()
})
afterAll(() => service?.stop())

interface Run {
  /** Output so far. */
  output(): string
  ended: Promise<number | null>
}

const running = new Set<{ kill(signal: 'SIGKILL'): unknown }>()
afterAll(() => {
  for (const child of running) child.kill('SIGKILL')
})

/** Runs an example like a reader, with only the variables of the shell that Node needs. */
function start(name: string, key: string): Run {
  const child = spawn(process.execPath, ['--conditions=wardline-source', join(root, 'examples', name, 'agent.ts')], {
    env: {
      // The Claude Agent SDK starts a separate process.
      PATH: `${dirname(process.execPath)}:${process.env.PATH}`,
      HOME: newDataDir(),
      // The frameworks are large, and each example runs several times.
      NODE_COMPILE_CACHE: join(root, 'node_modules', '.cache', 'wardline'),
      WARDLINE_URL: service.baseUrl,
      WARDLINE_KEY: key,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  running.add(child)
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk) => {
      output += chunk
    })
  }
  const ended = new Promise<number | null>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code) => {
      running.delete(child)
      resolve(code)
    })
  })
  return { output: () => output, ended }
}

async function run(name: string, key: string): Promise<string> {
  const { output, ended } = start(name, key)
  expect(await ended, output()).toBe(0)
  expect(output()).toMatch(/^reports sent$/m)
  return output()
}

const kill = (id: string) => service.call('POST', `/api/kill/${id}`, { body: { reason: 'e2e' } })

/** Oldest first. */
const eventsOf = async (id: string, type: string) =>
  (await allEvents(service)).filter((row) => row.instance_id === id && row.event_type === type).reverse()

const search = ['web-search', true]
const read = ['file-read', true]
const readMissing = ['file-read', false]

test.concurrent.for<[name: string, calls: unknown[][]]>([
  ['typescript', [search, read, search, readMissing]],
  ['ai-sdk', [search, read, readMissing]],
  [
    'openai-agents',
    [
      ['web_search', true],
      ['file_read', true],
      ['file_read', false],
    ],
  ],
  [
    'claude-agent-sdk',
    [
      ['Read', true],
      ['Read', false],
    ],
  ],
  ['langchain', [search, read, readMissing]],
  ['mcp', [search, read, readMissing]],
])(
  'the example %s works, is reported, touches the decoy and stops when it is suspended',
  async ([name, calls], { skip }) => {
    if (isExternal) return skip(fixedIds)
    const id = `${name}-example`
    const key = await createKey(service, { scope: 'agent', instances: [id] })
    const reported = async () =>
      (await eventsOf(id, 'tool_call')).map(({ metadata }) => [metadata?.toolName, metadata?.ok])

    const free = await run(name, key)
    expect(free).not.toContain('"denied"')
    expect(await reported()).toEqual(calls)

    await createPathDecoy(service, id, wallet)
    const tempted = await run(name, key)
    expect(tempted.split('\n').filter((line) => line.includes(notAllowed))).toHaveLength(1)
    expect(await reported()).toEqual([...calls, ...calls.slice(0, -1)])
    expect(await eventsOf(id, 'honeypot_triggered')).toHaveLength(1)

    await kill(id)
    const stopped = await run(name, key)
    expect(stopped).toContain(suspended)
    expect(stopped).not.toContain('three pages')
    expect(await reported()).toHaveLength(2 * calls.length - 1)
  },
)

/** Runs `npm run example` with the Node of the machine; returns output and exit code. */
async function asPrinted(args: string[], env: Record<string, string> = {}) {
  const all = { PATH: machinePath, HOME: newDataDir(), ...env }
  return promisify(execFile)('npm', ['run', '--silent', 'example', '--', ...args], { cwd: root, env: all }).then(
    ({ stdout }) => ({ code: 0, text: stdout }),
    (fault) => ({ code: fault.code as number, text: `${fault.stdout}${fault.stderr}` }),
  )
}

test('npm run example lists every example, and refuses a name that is none', async () => {
  const { code, text } = await asPrinted([])
  expect(code).toBe(0)
  const folders = readdirSync(join(root, 'examples'), { withFileTypes: true }).filter((entry) => entry.isDirectory())
  // The others are programs; these are sessions to replay.
  const names = folders.filter(({ name }) => name !== 'incidents')
  expect(text).not.toContain('incidents')
  for (const { name } of names) expect(text).toMatch(new RegExp(`^${name} +\\S`, 'm'))
  expect(await asPrinted(['nope'])).toMatchObject({ code: 64, text: expect.stringContaining('no example "nope"') })
})

test.for(['langchain', 'python'])('npm run example -- %s works on the Node of the machine', async (name, { skip }) => {
  if (isExternal) return skip(fixedIds)
  const id = `${name}-example`
  const { status } = await service.call('POST', `/api/resume/${id}`)
  expect([200, 404]).toContain(status)
  const key = await createKey(service, { scope: 'agent', instances: [id] })
  const { code, text } = await asPrinted([name], { WARDLINE_URL: service.baseUrl, WARDLINE_KEY: key })
  expect(code, text).toBe(0)
  expect(await eventsOf(id, 'tool_call')).not.toEqual([])
})

test('the example in TypeScript stops in the middle of its work', async ({ skip }) => {
  if (isExternal) return skip(fixedIds)
  const id = 'typescript-example'
  await service.call('POST', `/api/resume/${id}`)
  const { output, ended } = start('typescript', await createKey(service, { scope: 'agent', instances: [id] }))
  await until('a first line', output, (text) => text.includes('three pages about tides'))
  await kill(id)
  expect(await ended, output()).toBe(0)
  expect(output()).toMatch(/^-- suspended: e2e$/m)
  expect(output()).toMatch(/^denied \(suspended\): /m)
  expect(output()).not.toContain(wallet)
})
