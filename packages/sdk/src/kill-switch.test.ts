import { execFileSync } from 'node:child_process'
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, expect, test } from 'vitest'
import type { MonitorError } from './faults.ts'
import { KillSwitch } from './kill-switch.ts'
import { Listeners } from './listeners.ts'
import { readStateFile } from './state-file.ts'
import { type ControlState, stateFromPoll, stateFromStream } from './wire.ts'

const folder = mkdtempSync(join(tmpdir(), 'wardline-switch-'))
afterAll(() => rmSync(folder, { recursive: true }))

const settings = { instanceId: 'agent-1', failMode: 'open' as const, staleAfterMs: 1000 }
let files = 0
const newFile = () => join(folder, `state-${++files}.json`)

function open(given: { stateFile?: string; suspendLog?: string } = {}) {
  const listeners = new Listeners()
  const errors: MonitorError[] = []
  listeners.on('error', (error) => errors.push(error))
  return { killSwitch: new KillSwitch({ ...settings, ...given }, listeners), listeners, errors }
}

// An attacker who delays or repeats answers must not be able to lift a suspension.
test('follows the highest version, in whatever order and however often they come', () => {
  const history = fc.array(fc.record({ version: fc.nat(20), rank: fc.nat() }), { minLength: 1 })
  fc.assert(
    fc.property(history, (heard) => {
      const { killSwitch } = open()
      for (const { version } of heard) killSwitch.take({ version, suspended: version % 2 === 1, reason: null })
      const highest = Math.max(...heard.map(({ version }) => version))
      expect(killSwitch.version).toBe(highest)
      expect(killSwitch.suspended).toBe(highest % 2 === 1)
      expect(killSwitch.signal.aborted).toBe(highest % 2 === 1)
    }),
    { seed: 1 },
  )
})

// A listener that ends the process is the most natural one: the agent must not come back unsuspended.
test('has stored a suspension before it notifies listeners', () => {
  const stateFile = newFile()
  const { killSwitch, listeners } = open({ stateFile })
  const kept: unknown[] = []
  killSwitch.signal.addEventListener('abort', () => kept.push(readStateFile(stateFile, 'agent-1').value))
  listeners.on('suspend', () => kept.push(readStateFile(stateFile, 'agent-1').value))
  const received = { version: 3, suspended: true, reason: 'why' }
  killSwitch.take(received)
  expect(kept).toEqual([received, received])
})

test('keeps its files to its owner and leaves no half ones', () => {
  const stateFile = newFile()
  const { killSwitch } = open({ stateFile, suspendLog: `${stateFile}.log` })
  killSwitch.take({ version: 1, suspended: true, reason: null })
  for (const file of [stateFile, `${stateFile}.log`]) expect(statSync(file).mode & 0o777).toBe(0o600)
  expect(readdirSync(folder).filter((name) => name.endsWith('.new'))).toEqual([])
})

// Hooks of a coding agent are many short processes: one that was slow must not undo what another one has kept.
// An agent would otherwise wait for ever at its start, or write over a file that a link leads to.
test('opens nothing but files for its state and its log, and follows no link', () => {
  const [stateFile, suspendLog, target] = [newFile(), newFile(), newFile()]
  writeFileSync(target, 'precious')
  execFileSync('mkfifo', [stateFile, suspendLog])
  symlinkSync(target, `${stateFile}.${process.pid}.new`)
  const { killSwitch, errors } = open({ stateFile, suspendLog })
  killSwitch.take({ version: 1, suspended: true, reason: null })
  expect(killSwitch.suspended).toBe(true)
  expect(errors.map(({ code }) => code)).toContain('file')
  expect(readFileSync(target, 'utf8')).toBe('precious')
  expect(readStateFile(stateFile, 'agent-1').value).toMatchObject({ version: 1, suspended: true })
  for (const [file, link] of [[target, newFile()]] as const) {
    symlinkSync(file, link)
    expect(readStateFile(link, 'agent-1').fault?.message).toContain('ELOOP')
  }
})

test('does not replace what is kept by an older state', () => {
  const stateFile = newFile()
  const [slow, quick] = [open({ stateFile }), open({ stateFile })]
  quick.killSwitch.take({ version: 2, suspended: true, reason: 'why' })
  slow.killSwitch.take({ version: 1, suspended: false, reason: null })
  expect(readStateFile(stateFile, 'agent-1').value).toEqual({ version: 2, suspended: true, reason: 'why' })
  expect(open({ stateFile }).killSwitch.suspended).toBe(true)
})

test.each([
  ['of another instance', JSON.stringify({ instance_id: 'agent-2', version: 3, suspended: true, reason: null })],
  ['with a version that is none', JSON.stringify({ instance_id: 'agent-1', version: '3', suspended: true })],
  ['cut short', '{"instance_id":"agent-1","ver'],
  ['empty', ''],
  ['that holds null', 'null'],
])('says so of a state file %s, and goes on', async (_fault, text) => {
  const stateFile = newFile()
  writeFileSync(stateFile, text)
  const { killSwitch, errors } = open({ stateFile })
  expect(killSwitch.version).toBeUndefined()
  await Promise.resolve()
  expect(errors.map(({ code }) => code)).toEqual(['file'])
  killSwitch.take({ version: 1, suspended: true, reason: null })
  expect(readStateFile(stateFile, 'agent-1').value?.suspended).toBe(true)
})

test('suspends although neither file can be written, and says so', () => {
  const nowhere = join(folder, 'nowhere', 'state.json')
  const { killSwitch, errors } = open({ stateFile: nowhere, suspendLog: `${nowhere}.log` })
  killSwitch.take({ version: 1, suspended: true, reason: null })
  expect(killSwitch.suspended).toBe(true)
  expect(errors.map(({ code }) => code)).toEqual(['file', 'file'])
  expect(existsSync(nowhere)).toBe(false)
})

test('writes one line for each change, however hostile the reason is', () => {
  const suspendLog = join(folder, 'suspend.log')
  const { killSwitch } = open({ suspendLog })
  const reason = 'a"b\n{"action":"resume"}\u2028\u001b[31m'
  killSwitch.take({ version: 1, suspended: true, reason })
  killSwitch.take({ version: 1, suspended: true, reason })
  const lines = readFileSync(suspendLog, 'utf8').trimEnd().split('\n')
  expect(lines.map((line) => JSON.parse(line).reason)).toEqual([reason])
})

test('takes a listener that throws or rejects for an error, not for a reason to stop', async () => {
  const { killSwitch, listeners, errors } = open()
  listeners.on('suspend', () => {
    throw new Error('mine')
  })
  listeners.on('suspend', async () => {
    throw new Error('mine as well')
  })
  listeners.on('error', () => {
    throw new Error('of all things')
  })
  killSwitch.take({ version: 1, suspended: true, reason: null })
  await new Promise((resolve) => setImmediate(resolve))
  expect(killSwitch.suspended).toBe(true)
  expect(errors.map(({ code }) => code)).toEqual(['listener', 'listener'])
})

test('notifies no listener that was removed', () => {
  const { killSwitch, listeners } = open()
  const heard: unknown[] = []
  const takeOff = listeners.on('suspend', (change) => heard.push(change))
  takeOff()
  killSwitch.take({ version: 1, suspended: true, reason: null })
  expect(heard).toEqual([])
})

const message = { instance_id: 'agent-1', action: 'suspend', reason: 'why', version: 3 }
const state: ControlState = { version: 3, suspended: true, reason: 'why' }

// A message of another instance, or one that is no message, must move nothing.
test('reads a control message of its instance and refuses everything else', () => {
  expect(stateFromStream(JSON.stringify(message), 'agent-1')).toEqual(state)
  expect(stateFromStream(JSON.stringify({ ...message, action: 'resume', reason: undefined }), 'agent-1')).toEqual({
    version: 3,
    suspended: false,
    reason: null,
  })
  expect(stateFromStream(JSON.stringify(message), 'agent-2')).toBeUndefined()
  for (const wrong of [
    { action: 'explode' },
    { version: '3' },
    { version: 1.5 },
    { version: -1 },
    { version: 1e300 },
  ]) {
    expect(stateFromStream(JSON.stringify({ ...message, ...wrong }), 'agent-1'), JSON.stringify(wrong)).toBeUndefined()
  }
  for (const text of ['', 'null', '7', '[]', '{']) expect(stateFromStream(text, 'agent-1')).toBeUndefined()
})

test('reads a poll that has a version and refuses one that has none', () => {
  for (const etag of ['W/"3"', '"3"']) expect(stateFromPoll({ suspended: true, reason: 'why' }, etag)).toEqual(state)
  for (const etag of [null, '', 'W/""', 'W/"-1"', 'W/"3', '3', 'W/"3"x', `W/"${'9'.repeat(16)}"`]) {
    expect(stateFromPoll({ suspended: true, reason: null }, etag), `${etag}`).toBeUndefined()
  }
  expect(stateFromPoll({}, 'W/"3"')).toBeUndefined()
})
