import { spawn } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Results } from '../../packages/sdk/src/results.ts'
import { callFields } from '../../packages/sdk/src/tool-fields.ts'
import { toolTable } from '../../packages/sdk/src/tool-table.ts'
import { noPython, python } from '../../test-servers/python.ts'
import { allEvents, createKey, createKeyDecoy, createPathDecoy, newInstance, unique } from '../fleet.ts'
import { isExternal, needsOwnProcess, newDataDir, type Service, startService, until } from '../service.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const client = join(root, 'clients/python')

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

  end(): void {
    this.#child.stdin.end()
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
    expect(stderr).not.toMatch(
      /skipped '(?!openssl makes|this deployment has decoys|changing the user needs root|these tests look into .proc)/,
    )
    await own.stop()
  },
)

test('the Python client has tests for all that it does', () => {
  expect([...ownTests.values()].reduce((sum, count) => sum + count, 0)).toBeGreaterThan(40)
})

/** Reads calls as lines of JSON, and prints what the Python client reads in them. */
const callReader = `
import json, sys
from wardline import _call_fields
for line in sys.stdin:
    tool, params = json.loads(line)
    fields = _call_fields(tool, params)
    print(json.dumps({'paths': [], 'hosts': [], **fields}), flush=True)
`

const words = [
  'read',
  'file',
  'web',
  'search',
  'send_email',
  'Bash',
  'mcp__fs__write_file',
  'http-request',
  'python',
  'x',
  'runJob',
  'create_issue',
  'memory',
  'query',
  'draft',
]
const texts = [
  ...[
    '/app/.env',
    '~/.ssh/id_rsa',
    'notes.txt',
    'C:\\\\keys\\a.txt',
    './a b',
    'id_rsa',
    'a/b',
    '.aws',
    '/dev/null',
    '1.5',
  ],
  ...[
    'https://u:p@Evil.example:80/x',
    'http://0xA9FEA9FE/',
    'evil.example',
    'bob@10.0.0.1:/tmp/x',
    'Ann <ann@Mail.example>',
  ],
  ...[
    'ftp://[::1]/',
    'file:///C:/x',
    'http://good.example@evil.example\\\\@x/',
    'http://％65vil。example',
    '99',
    '3232235777',
    '0x',
  ],
  ...[
    'cat',
    'curl',
    '-o',
    '--data=@',
    'sudo',
    '|',
    ';',
    '&&',
    '>',
    '"',
    "'",
    '$(',
    ')',
    '\n',
    '-exec',
    '<',
    '<<',
    '=>',
    '\\\n',
    '-d@',
    '-T',
    '-i',
    '-u',
    'do',
    'socat',
    'TCP:',
    'FILE:',
    'mail',
    'Bearer',
    'Token:',
    '--token',
    'PASSWORD=',
    'evil 80',
    'evil:80',
    'git@evil.example:a/b',
    '\\\\\\\\evil\\share',
    'A=',
    '=',
    '@',
    ':',
    '//',
    '\u00e9',
  ],
  ...[
    '*** Update File: src/a.ts',
    '+++ b/src/b.ts',
    '/dev/tcp/1.2.3.4/80',
    'scp',
    'bash -c',
    'timeout 5',
    '{"path":"/a/b"}',
    'H=evil',
    "export K='a b.c'",
    '$H',
    '$' + '{H}',
    'PASSWORD=x',
    'ping -c 4',
    'ssh -p 22',
    'view',
    'create_file',
    'drop table x',
    'update a set',
    'see https://evil.example/x and',
  ],
]
const names = Object.values(toolTable.arguments).flatMap((list) => list.split(' '))

test('the Python client and the SDK read the same in a call', { timeout: 120_000 }, async ({ skip }) => {
  if (python === undefined) return skip(noPython)
  const text = fc
    .array(fc.constantFrom(...texts), { minLength: 1, maxLength: 8 })
    .chain((parts) => fc.constantFrom('', ' ', '/').map((separator) => parts.join(separator)))
  const value = fc.oneof(text, text, fc.array(text, { maxLength: 4 }), fc.integer(), fc.constant(null))
  const name = fc.oneof(
    fc.constantFrom(...names),
    fc.constantFrom(
      'file_path',
      'Target-File',
      'q',
      'to_address',
      'api_key',
      'password',
      'repoPath',
      'profile',
      'dbHost',
    ),
  )
  const params = fc.oneof(
    text,
    fc.array(value, { maxLength: 3 }),
    fc.dictionary(name, fc.oneof(value, fc.dictionary(name, value))),
  )
  const { tools, verbs, nouns, sending } = toolTable
  const tableWords = [tools, verbs, nouns, sending]
    .flatMap((part) => Object.values(part))
    .flatMap((list) => list.split(' '))
  const word = fc.oneof(fc.constantFrom(...words), fc.constantFrom(...tableWords))
  const tool = fc.array(word, { minLength: 1, maxLength: 3 }).map((parts) => parts.join('_'))
  const seed = 31
  const calls = fc.sample(fc.tuple(tool, params), { seed, numRuns: 3_000 })
  const script = new Script(['-c', callReader], { PYTHONIOENCODING: 'utf-8' })
  for (const call of calls) script.send(JSON.stringify(call))
  script.end()
  const { stdout, stderr } = await script.ended
  const read = stdout.split('\n')
  expect(read, stderr).toHaveLength(calls.length)
  for (const [at, [name, given]] of calls.entries()) {
    const { command, isCut, ...fields } = callFields(name, given)
    expect(JSON.parse(read[at]!), `seed ${seed}: ${JSON.stringify(calls[at])}`).toEqual({
      ...fields,
      ...(isCut ? { fields_cut: true } : {}),
      ...(command === undefined ? {} : { command }),
    })
  }
})

const resultReader = `
import json, sys
from wardline import _Results
results = _Results('wl_agent_key', False)
for line in sys.stdin:
    read = results.of(json.loads(line))
    print(json.dumps(read and {'result': read[0], 'keys': read[1]}), flush=True)
`

test('the Python client and the SDK say the same of a result', async ({ skip }) => {
  if (python === undefined) return skip(noPython)
  const marks = [
    ...[
      'password',
      'token = ',
      'Api-Key: ',
      'cookie: ',
      'Bearer ',
      '--secret ',
      '?key=',
      'https://u:p@',
      'AKIA',
      'AIza',
    ],
    ...[
      'ghp_',
      'sk-',
      'glpat-',
      'xoxb-',
      'eyJ',
      'hf_',
      'npm_',
      'SG.',
      '-----BEGIN RSA PRIVATE KEY-----',
      '\n',
      ' ',
      '"',
    ],
    ...['abcdefgh', 'a1B2c3D4', 'host.example/', '4711'],
  ]
  const text = fc.array(fc.constantFrom(...marks), { maxLength: 8 }).map((parts) => parts.join(''))
  const value = fc.oneof(text, text, fc.integer(), fc.constant(null), fc.boolean())
  const result = fc.oneof(value, fc.array(value, { maxLength: 3 }), fc.dictionary(fc.string(), value, { maxKeys: 3 }))
  const seed = 32
  const samples = fc.sample(result, { seed, numRuns: 1_000 }).map((sample) => JSON.stringify(sample))
  const script = new Script(['-c', resultReader], { PYTHONIOENCODING: 'utf-8' })
  for (const sample of samples) script.send(sample)
  script.end()
  const { stdout, stderr } = await script.ended
  const described = stdout.split('\n')
  expect(described, stderr).toHaveLength(samples.length)
  const results = new Results('wl_agent_key', false)
  for (const [at, sample] of samples.entries()) {
    expect(JSON.parse(described[at]!), `seed ${seed}: ${sample}`).toEqual(results.of(JSON.parse(sample)) ?? null)
  }
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
