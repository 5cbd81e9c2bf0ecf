import { execFileSync } from 'node:child_process'
import {
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { AgentMemory } from './agent-memory.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'wardline-memory-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

const memoryOf = (url = 'http://127.0.0.1:4747', id = 'agent-1') => new AgentMemory(folder, url, id)
const kill = (version: number) => ({ version, suspended: true, reason: `kill ${version}` })
const resume = (version: number) => ({ version, suspended: false, reason: null })

// Hook calls run concurrently: one with an older state must not overwrite what another has written.
test('keeps the highest version, whatever the order of writes', () => {
  const memory = memoryOf()
  for (const received of [kill(3), resume(2), kill(1)]) expect(memory.keep(received)).toBeUndefined()
  expect(memoryOf().latest()).toEqual(kill(3))
  memory.keep(resume(4))
  memory.keep(kill(3))
  expect(memoryOf().latest()).toEqual(resume(4))
})

test('separates the state of instances and services', () => {
  memoryOf().keep(kill(1))
  expect(memoryOf('http://127.0.0.1:4747/').latest()).toEqual(kill(1))
  expect(memoryOf('http://127.0.0.1:4748').latest()).toBeUndefined()
  expect(memoryOf(undefined, 'agent-2').latest()).toBeUndefined()
})

test('skips invalid lines and the cut first line of a long log', () => {
  const memory = memoryOf()
  const noise = [
    '',
    'null',
    '7',
    '{"instance":"agent-1"}',
    '{"instance":"agent-1","action":"suspend","version":"9"}',
    '{"half',
  ]
  writeFileSync(memory.suspendLog, `${noise.join('\n')}\n`.repeat(3_000))
  memory.keep(kill(5))
  expect(memory.latest()).toEqual(kill(5))
})

test('writes one readable JSON line per change to the log', () => {
  const memory = memoryOf()
  memory.keep(kill(1))
  expect(JSON.parse(readFileSync(memory.suspendLog, 'utf8'))).toEqual({
    time: expect.any(String),
    instance: 'agent-1',
    action: 'suspend',
    version: 1,
    reason: 'kill 1',
  })
})

// A service that keeps changing the state must not fill the disk.
test('bounds the log and finds the highest version in either of its files', () => {
  const memory = memoryOf()
  const long = 'x'.repeat(500)
  for (let version = 1; version <= 6_000; version++) memory.keep({ version, suspended: true, reason: long })
  const sizes = readdirSync(folder).map((name) => statSync(join(folder, name)).size)
  expect(sizes).toHaveLength(2)
  for (const size of sizes) expect(size).toBeLessThan(1024 * 1024 + 1_000)
  expect(memory.latest()?.version).toBe(6_000)
  renameSync(memory.suspendLog, `${memory.suspendLog}.1`)
  memory.keep(kill(7))
  expect(memory.latest()?.version).toBe(6_000)
  memory.keep(kill(8), true)
  expect(memory.latest()).toEqual(kill(8))
})

test('refuses links and anything but regular files', () => {
  const memory = memoryOf()
  const other = join(folder, 'other')
  writeFileSync(other, '')
  symlinkSync(other, memory.suspendLog)
  expect(memory.keep(kill(1))).toContain('ELOOP')
  expect(() => memory.latest()).toThrow('ELOOP')
  expect(readFileSync(other, 'utf8')).toBe('')
  rmSync(memory.suspendLog)
  execFileSync('mkfifo', [memory.suspendLog])
  expect(memory.keep(kill(1))).toMatch(/ENXIO|not a regular file/)
  expect(() => memory.latest()).toThrow('not a regular file')
})

test('reports a heartbeat as due after a minute, and when the clock was set back', () => {
  const memory = memoryOf()
  expect(memory.isBeatDue).toBe(true)
  memory.noteBeat()
  expect(memory.isBeatDue).toBe(false)
  const file = memory.suspendLog.replace('.log', '.beat')
  for (const minutes of [-1.1, 1.1]) {
    const at = new Date(Date.now() + minutes * 60_000)
    utimesSync(file, at, at)
    expect(memory.isBeatDue, `${minutes} minutes`).toBe(true)
  }
  memory.noteBeat()
  expect(memory.isBeatDue).toBe(false)
})

test('returns the count of lost calls only once', () => {
  const memory = memoryOf()
  expect(memory.takeLost()).toBe(0)
  memory.addLost(2)
  memoryOf().addLost(3)
  expect(memory.takeLost()).toBe(5)
  expect(memoryOf().takeLost()).toBe(0)
})
