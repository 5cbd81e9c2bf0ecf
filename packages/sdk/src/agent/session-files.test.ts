import { fork } from 'node:child_process'
import {
  appendFileSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { PolicySet } from '@wardline/policy'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { SessionFile } from './session-files.ts'

let folder: string
beforeEach(() => {
  folder = join(mkdtempSync(join(tmpdir(), 'wardline-sessions-')), 'sessions')
})
afterEach(() => rmSync(join(folder, '..'), { recursive: true, force: true }))

const set = new PolicySet({ agent: { id: 'agent-1', tags: [] }, policies: [] })
const tool = (name: string) => (one: { name: string }) => one.name === name
const none = () => false
const fileOf = () => join(folder, readdirSync(folder).find((name) => name.endsWith('.jsonl'))!)

function add(sessionId: string, toolName: string, answer: unknown = undefined): void {
  const file = new SessionFile(folder, sessionId)
  set.learn(file.memory(), { tool: toolName, args: {} }, answer)
  file.save()
}

test('what one process adds, the next one knows; other sessions do not', () => {
  const file = new SessionFile(folder, 's1')
  file.memory().prompt('Write to anna@example.com')
  file.memory().count('limit', 60_000, 1_000, 2)
  file.save()
  add('s1', 'read_inbox', 'See https://example.com/page')
  const memory = new SessionFile(folder, 's1').memory()
  expect(memory.proves('anna@example.com', none)).toBe(true)
  expect(memory.answered(tool('read_inbox'))).toBe('read_inbox')
  expect(memory.saw('https://example.com/page')).toBe(true)
  expect(memory.counted('limit', 60_000, 1_500)).toBe(2)
  const other = new SessionFile(folder, 's2').memory()
  expect(other.proves('anna@example.com', none)).toBe(false)
  expect(other.answered(() => true)).toBeUndefined()
})

test('files are readable by their owner only, named by a hash, and hold no text', () => {
  add('session/../../etc', 'read_inbox', 'the answer')
  expect(readdirSync(folder)).toEqual([expect.stringMatching(/^[0-9a-f]{32}\.jsonl$/)])
  expect(statSync(fileOf()).mode & 0o777).toBe(0o600)
  expect(readFileSync(fileOf(), 'utf8')).not.toMatch(/the answer|etc/)
})

// Attack: calls made at the same time, each of which sees that the limit has one left.
test('of processes that decide at the same time, no more pass than a limit has', { timeout: 60_000 }, async () => {
  const decider = join(folder, '..', 'decider.mjs')
  const source = new URL('./session-files.ts', import.meta.url).href
  writeFileSync(
    decider,
    `import { SessionFile } from '${source}'
let passed = 0
process.on('message', () => {
  for (let at = 0; at < 10; at++) {
    const file = new SessionFile(process.argv[2], 's1')
    file.exclusively(() => {
      const memory = file.memory()
      if (memory.counted('limit', 60_000, 1_000) >= 10) return
      memory.count('limit', 60_000, 1_000, 1)
      file.save()
      passed += 1
    })
  }
  process.send(passed, () => process.exit())
})
process.send('ready')`,
  )
  const options = { execPath: process.execPath, execArgv: ['--conditions=wardline-source'] }
  const deciders = Array.from({ length: 6 }, () => fork(decider, [folder], options))
  const next = () => Promise.all(deciders.map((one) => new Promise<number>((resolve) => one.once('message', resolve))))
  await next()
  const passed = next()
  for (const one of deciders) one.send('go')
  expect((await passed).reduce((sum, one) => sum + one, 0)).toBe(10)
})

// A lost tool that read would let a call pass that has to be asked about.
test('of processes that write at the same time, none loses what it adds', { timeout: 60_000 }, async () => {
  const writer = join(folder, '..', 'writer.mjs')
  const sources = ['./session-files.ts', '../../../policy/src/index.ts'].map(
    (path) => new URL(path, import.meta.url).href,
  )
  writeFileSync(
    writer,
    `import { SessionFile } from '${sources[0]}'
import { PolicySet } from '${sources[1]}'
const [folder, name] = process.argv.slice(2)
const set = new PolicySet({ agent: { id: 'a', tags: [] }, policies: [] })
for (let at = 0; at < 12; at++) {
  const file = new SessionFile(folder, 's1')
  // Addresses enough that the file is joined again and again.
  const text = Array.from({ length: 1_500 }, (_, i) => 'https://example.com/' + name + at + i).join(' ')
  set.learn(file.memory(), { tool: name + at, args: {} }, text)
  file.save()
}`,
  )
  const names = ['a', 'b', 'c', 'd', 'e']
  const ends = names.map(
    (name) =>
      new Promise((resolve) => {
        const options = { execPath: process.execPath, execArgv: ['--conditions=wardline-source'] }
        fork(fileURLToPath(new URL(`file://${writer}`)), [folder, name], options).on('exit', resolve)
      }),
  )
  expect(await Promise.all(ends)).toEqual(names.map(() => 0))
  const memory = new SessionFile(folder, 's1').memory()
  const missing = names.flatMap((name) =>
    Array.from({ length: 12 }, (_, at) => name + at).filter((one) => memory.answered(tool(one)) === undefined),
  )
  expect(missing).toEqual([])
  expect(memory.hasMoreTools).toBe(false)
  expect(statSync(fileOf()).size).toBeLessThan(400 * 1024)
})

test.each([
  ['a line that is cut', '{"version":1,"key"\n'],
  [
    'a line of another key',
    `${JSON.stringify({ version: 1, key: 'x', words: '', values: '', addresses: '', tools: [], more: false, counts: {} })}\n`,
  ],
  ['a line that is something else', '[]\n'],
])('%s counts as untrusted text that was read', (_, line) => {
  add('s1', 'read_inbox')
  appendFileSync(fileOf(), line)
  expect(new SessionFile(folder, 's1').memory().hasMoreTools).toBe(true)
})

test('a line that is being written is not read yet', () => {
  add('s1', 'read_inbox')
  appendFileSync(fileOf(), '{"version":1')
  expect(new SessionFile(folder, 's1').memory().hasMoreTools).toBe(false)
})

test('at most 50 sessions are kept, and the one used longest ago goes first', () => {
  for (let at = 0; at < 50; at++) add(`s${at}`, 'read')
  const [oldest] = readdirSync(folder)
  utimesSync(join(folder, oldest!), new Date(0), new Date(0))
  add('new', 'read')
  const left = readdirSync(folder).filter((name) => name.endsWith('.jsonl'))
  expect(left).toHaveLength(50)
  expect(left).not.toContain(oldest)
})

test('a file that was removed meanwhile is begun again', () => {
  const file = new SessionFile(folder, 's1')
  set.learn(file.memory(), { tool: 'read', args: {} }, undefined)
  rmSync(fileOf())
  file.save()
  expect(new SessionFile(folder, 's1').memory().answered(tool('read'))).toBe('read')
})

test('a session whose file was emptied counts as one that read untrusted text, also after it is written to again', () => {
  add('s1', 'read_inbox')
  writeFileSync(fileOf(), '')
  add('s1', 'send_email')
  expect(new SessionFile(folder, 's1').memory().hasMoreTools).toBe(true)
})

test('a session that was removed for newer ones counts as one that read untrusted text when it goes on', () => {
  add('s1', 'read_inbox')
  utimesSync(fileOf(), 1, 1)
  for (let at = 0; at < 50; at++) add(`later-${at}`, 'read_inbox')
  expect(new SessionFile(folder, 's1').memory().hasMoreTools).toBe(true)
  expect(new SessionFile(folder, 'new').memory().hasMoreTools).toBe(false)
})

interface Vector {
  name: string
  set: ConstructorParameters<typeof PolicySet>[0]
  tools?: ConstructorParameters<typeof PolicySet>[1]
  steps: (
    | { prompt: string }
    | { learn: { tool: string; args: unknown }; answer: unknown }
    | { decide: { tool: string; args: unknown; at: number } }
    | { hash: unknown }
  )[]
  results?: unknown[]
}

// Each hook is a process that knows only the file: the vectors that hold in one process must hold from file to file.
test('every vector of policies comes to the same decisions when each step is another hook', () => {
  const file = new URL('../../../contract/vectors/policies.ndjson', import.meta.url)
  const vectors = readFileSync(file, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Vector)
  let decisions = 0
  for (const { name, set: delivered, tools, steps, results } of vectors) {
    // Without results the set cannot be read.
    if (!results) continue
    const held = new PolicySet(delivered, tools)
    for (const [index, step] of steps.entries()) {
      if ('hash' in step) continue
      const hook = new SessionFile(folder, name)
      if ('prompt' in step) hook.memory().prompt(step.prompt)
      else if ('learn' in step) held.learn(hook.memory(), step.learn, step.answer)
      else {
        const { policy, observed, ...decided } = held.decide(hook.memory(), step.decide)
        const seen = observed.map((one) => [one.policy.id, one.decision, one.rule, one.why])
        expect({ ...decided, policy: policy?.id ?? null, observed: seen }, `${name}, step ${index}`).toEqual(
          results[index],
        )
        decisions += 1
      }
      hook.save()
    }
  }
  expect(decisions).toBeGreaterThan(500)
})
