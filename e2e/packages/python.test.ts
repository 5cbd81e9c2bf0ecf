import { execFileSync, spawn } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { allEvents, createKey, createKeyDecoy, createPathDecoy, newInstance, unique } from '../fleet.ts'
import { isExternal, needsOwnProcess, newDataDir, type Service, startService, until } from '../service.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const client = join(root, 'clients/python')
const noPython = 'python3 of at least 3.9 is not installed'

function findPython(): string | undefined {
  try {
    const script = 'import sys; assert sys.version_info >= (3, 9); print(sys.executable)'
    return execFileSync('python3', ['-c', script], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()
  } catch {
    return undefined
  }
}
const python = findPython()

let service: Service
beforeAll(async () => {
  if (python !== undefined) service = await startService()
})
afterAll(() => service?.stop())

interface Run {
  code: number | null
  stdout: string
  stderr: string
}

/** Starts Python with warnings as errors and only the variables of the shell that Python needs. */
class Script {
  readonly #child
  readonly lines: string[] = []
  #stderr = ''
  readonly ended: Promise<Run>

  constructor(args: string[], env: Record<string, string>) {
    this.#child = spawn(python!, ['-W', 'error', ...args], {
      cwd: client,
      env: { PATH: process.env.PATH ?? '', PYTHONDONTWRITEBYTECODE: '1', PYTHONPATH: client, ...env },
    })
    createInterface(this.#child.stdout).on('line', (line) => this.lines.push(line))
    this.#child.stderr.on('data', (chunk) => {
      this.#stderr += chunk
    })
    this.ended = new Promise((resolve, reject) => {
      this.#child.once('error', reject)
      this.#child.once('close', (code) => {
        running.delete(this)
        resolve({ code, stdout: this.lines.join('\n'), stderr: this.#stderr })
      })
    })
    running.add(this)
  }

  get stderr(): string {
    return this.#stderr
  }

  says(line: string): Promise<unknown> {
    const read = () => `${this.lines.join('\n')}\n${this.#stderr}`
    return until(`the line "${line}"`, read, () => this.lines.includes(line))
  }

  send(line: string): void {
    this.#child.stdin.write(`${line}\n`)
  }

  kill(): void {
    this.#child.kill('SIGKILL')
  }
}
const running = new Set<Script>()
afterAll(() => {
  for (const script of running) script.kill()
})

/** Number of tests by class name. */
const ownTests = new Map(
  readFileSync(join(client, 'test_wardline.py'), 'utf8')
    .split(/^class (?=\w+\()/m)
    .map((text): [string, number] => [/^\w+/.exec(text)?.[0] ?? '', text.match(/^ {4}def test_/gm)?.length ?? 0])
    .filter(([, count]) => count > 0)
    .sort(),
)
/** They mostly wait, so several parts run concurrently, each against a separate service. */
const parts = [0, 1, 2, 3].map((part) => [...ownTests.keys()].filter((_, index) => index % 4 === part))

test.concurrent.for(parts)(
  'the Python client passes its own tests against the service: %s',
  {
    timeout: 900_000,
  },
  async (classes, { skip }) => {
    if (python === undefined) return skip(noPython)
    const own = await startService()
    const script = new Script(['-m', 'unittest', '-v', ...classes.map((name) => `test_wardline.${name}`)], {
      WARDLINE_URL: own.baseUrl,
      WARDLINE_ADMIN_KEY: own.key,
      TEST_EFFORT: process.env.TEST_EFFORT ?? '',
    })
    const { code, stderr } = await script.ended
    expect(code, stderr).toBe(0)
    const written = classes.reduce((sum, name) => sum + ownTests.get(name)!, 0)
    expect(stderr).toContain(`Ran ${written} tests`)
    // A module that skips itself also exits with 0.
    expect(stderr).not.toMatch(/skipped '(?!openssl makes|this deployment has decoys)/)
    await own.stop()
  },
)

test('the Python client has tests for all that it does', () => {
  expect([...ownTests.values()].reduce((sum, count) => sum + count, 0)).toBeGreaterThan(40)
})

/** Watches its monitor and prints "free" if it is ever not suspended after the first suspension. */
const watcher = `
import os, sys, threading, time
from wardline import Denied, Monitor
monitor = Monitor(os.environ['URL'], os.environ['KEY'], os.environ['ID'], 'Watcher', state_file=os.environ['STATE'])
guarded = monitor.guard_tool('file-read')(lambda path: 'ran')
monitor.start()
print('suspended at start' if monitor.suspended else 'active at start', flush=True)
ending = threading.Event()
def look():
    assert monitor.wait_suspended()
    print('suspended', flush=True)
    connected, has_failed = monitor.health.stream_connected, False
    while not ending.is_set():
        try:
            guarded('x')
            print('free', flush=True)
        except Denied:
            pass
        health = monitor.health
        if health.stream_connected != connected:
            connected = not connected
            print('stream up' if connected else 'stream down', flush=True)
        if 'poll' in health.problems and not has_failed:
            has_failed = True
            print('poll failed', flush=True)
        time.sleep(0.001)
looker = threading.Thread(target=look)
looker.start()
sys.stdin.readline()
ending.set()
looker.join()
print(monitor.health.control_version, monitor.suspended, flush=True)
monitor.stop(0.1)
`

async function watch(id: string): Promise<{ start: () => Script }> {
  const key = await createKey(service, { scope: 'agent', instances: [id] })
  const env = { URL: service.baseUrl, KEY: key, ID: id, STATE: join(newDataDir(), 'agent.state') }
  return { start: () => new Script(['-c', watcher], env) }
}
const kill = (id: string) => service.call('POST', `/api/kill/${id}`, { body: { reason: 'e2e' } })

test('a suspended Python agent stays so throughout, while the service is killed and started again', async ({
  skip,
}) => {
  if (python === undefined) return skip(noPython)
  if (isExternal) return skip(needsOwnProcess)
  const id = unique('py')
  const script = (await watch(id)).start()
  await script.says('active at start')
  expect((await kill(id)).status).toBe(200)
  await script.says('suspended')
  await service.kill9()
  await script.says('stream down')
  await script.says('poll failed')
  await service.start()
  await script.says('stream up')
  script.send('end')
  const { stdout, code, stderr } = await script.ended
  expect(code, stderr).toBe(0)
  expect(stdout).not.toContain('free')
  expect(stdout).toMatch(/^1 True$/m)
})

test('a suspended Python agent that is killed and started while the service is away stays suspended', async ({
  skip,
}) => {
  if (python === undefined) return skip(noPython)
  if (isExternal) return skip(needsOwnProcess)
  const id = unique('py')
  const agent = await watch(id)
  const first = agent.start()
  await first.says('active at start')
  await kill(id)
  await first.says('suspended')
  const confirmed = async () =>
    (await service.call<{ control: { confirmed: boolean } }>('GET', `/api/instances/${id}`)).body.control.confirmed
  await until('a confirmation', confirmed, (value) => value)
  first.kill()
  await first.ended
  await service.kill9()
  const second = agent.start()
  await second.says('suspended at start')
  await second.says('suspended')
  await service.start()
  await second.says('stream up')
  second.send('end')
  const { stdout } = await second.ended
  expect(stdout).not.toContain('free')
  expect(stdout).toMatch(/^1 True$/m)
})

// A decoy in an event, a log or an output would reveal itself to readers.
test('a decoy that a Python agent is about to use is stored and printed nowhere', async ({ skip }) => {
  if (python === undefined) return skip(noPython)
  if (isExternal) return skip(needsOwnProcess)
  const id = await newInstance(service, 'py')
  const { key: value } = await createKeyDecoy(service, id)
  const script = new Script(
    [
      '-c',
      `
import asyncio, os, traceback
from wardline import Denied, Monitor
with Monitor(os.environ['URL'], os.environ['KEY'], os.environ['ID'], 'Tempted') as monitor:
    async def fetch(url, headers): print('ran')
    try:
        asyncio.run(monitor.guard_tool('http-request')(fetch)('https://example.com', {'X-Key': os.environ['VALUE']}))
    except Denied as denied:
        traceback.print_exc()
        print(denied.code, denied.as_dict())
`,
    ],
    { URL: service.baseUrl, KEY: await createKey(service, { scope: 'agent', instances: [id] }), ID: id, VALUE: value },
  )
  const { code, stdout, stderr } = await script.ended
  expect(code, stderr).toBe(0)
  expect(stdout).toMatch(/^decoy \{'denied': True/)
  const events = (await allEvents(service)).filter((row) => row.instance_id === id)
  expect(events.map((row) => row.event_type)).toEqual(['honeypot_triggered'])
  for (const place of [stdout, stderr, service.logs(), service.storedBytes().toString('latin1')]) {
    expect(place).not.toContain(value)
  }
})

test('the Python agent of the guide reads its file until it is suspended', async ({ skip }) => {
  if (python === undefined) return skip(noPython)
  if (isExternal) return skip('the guide has a fixed instance id, which is suspended here')
  const guide = readFileSync(join(root, 'docs/guide/agents.md'), 'utf8')
  const block = /^```python\n(.*?)^```$/ms.exec(guide)?.[1] ?? ''
  const folder = newDataDir()
  writeFileSync(join(folder, 'notes.txt'), 'the notes')
  const env = {
    WARDLINE_URL: service.baseUrl,
    WARDLINE_KEY: await createKey(service, { scope: 'agent', instances: ['support-bot-1'] }),
  }
  const run = () => new Script(['-c', `import os; os.chdir(${JSON.stringify(folder)})\n${block}`], env).ended
  const free = await run()
  expect(free.stdout, free.stderr).toBe('the notes')
  await kill('support-bot-1')
  const stopped = await run()
  expect(stopped.stdout, stopped.stderr).toMatch(/^\{'denied': True, 'reason': 'This agent is suspended \(e2e\)/)
})

const example = (key: string) =>
  new Script([join(root, 'examples/python/agent.py')], { WARDLINE_URL: service.baseUrl, WARDLINE_KEY: key })

test('the Python example works, is reported, touches the decoy and stops when it is suspended', async ({ skip }) => {
  if (python === undefined) return skip(noPython)
  if (isExternal) return skip('the example has a fixed instance id, which is suspended here')
  const key = await createKey(service, { scope: 'agent', instances: ['python-example'] })
  const free = await example(key).ended
  expect(free.code, free.stderr).toBe(0)
  expect(free.stdout).toMatch(/^search\('tides at Ostend'\): three pages(?:.|\n)*FileNotFoundError\nreports sent$/)
  const calls = (await allEvents(service)).filter(
    (row) => row.instance_id === 'python-example' && row.event_type === 'tool_call',
  )
  expect(calls.map((row) => row.metadata?.toolName).sort()).toEqual([
    'file-read',
    'file-read',
    'web-search',
    'web-search',
  ])

  await createPathDecoy(service, 'python-example', '/srv/backup/wallet.dat')
  const tempted = await example(key).ended
  expect(tempted.stdout).toMatch(/\nread_file: denied \(decoy\): [^\n]+\nreports sent$/)

  await kill('python-example')
  const stopped = await example(key).ended
  expect(stopped.code, stopped.stderr).toBe(0)
  expect(stopped.stdout.split('\n').filter((line) => line !== '-- suspended: e2e')).toEqual([
    expect.stringMatching(/^search: denied \(suspended\): This agent is suspended \(e2e\)/),
    'reports sent',
  ])
})
