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

// An attacker who delays or repeats answers must not lift a suspension.
test('applies the highest version, whatever the order and number of states', () => {
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

// A listener will often end the process, which must not restart unsuspended.
test('stores a suspension before it notifies listeners', () => {
  const stateFile = newFile()
  const { killSwitch, listeners } = open({ stateFile })
  const kept: unknown[] = []
  killSwitch.signal.addEventListener('abort', () => kept.push(readStateFile(stateFile, 'agent-1').value))
  listeners.on('suspend', () => kept.push(readStateFile(stateFile, 'agent-1').value))
  const received = { version: 3, suspended: true, reason: 'why' }
  killSwitch.take(received)
  expect(kept).toEqual([received, received])
})

test('writes files only its owner can read, and leaves no partial ones', () => {
  const stateFile = newFile()
  const { killSwitch } = open({ stateFile, suspendLog: `${stateFile}.log` })
  killSwitch.take({ version: 1, suspended: true, reason: null })
  for (const file of [stateFile, `${stateFile}.log`]) expect(statSync(file).mode & 0o777).toBe(0o600)
  expect(readdirSync(folder).filter((name) => name.endsWith('.new'))).toEqual([])
})

// Opening a FIFO could block the agent at startup; following a link could overwrite its target.
test('opens only regular files for its state and log, and follows no links', () => {
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

// Several processes of one instance share the file: a slow one must not overwrite a newer state.
test('does not replace a stored state by an older one', () => {
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
])('reports a state file %s as an error, and continues', async (_fault, text) => {
  const stateFile = newFile()
  writeFileSync(stateFile, text)
  const { killSwitch, errors } = open({ stateFile })
  expect(killSwitch.version).toBeUndefined()
  await Promise.resolve()
  expect(errors.map(({ code }) => code)).toEqual(['file'])
  killSwitch.take({ version: 1, suspended: true, reason: null })
  expect(readStateFile(stateFile, 'agent-1').value?.suspended).toBe(true)
})

test('suspends even if neither file can be written, and reports both errors', () => {
  const nowhere = join(folder, 'nowhere', 'state.json')
  const { killSwitch, errors } = open({ stateFile: nowhere, suspendLog: `${nowhere}.log` })
  killSwitch.take({ version: 1, suspended: true, reason: null })
  expect(killSwitch.suspended).toBe(true)
  expect(errors.map(({ code }) => code)).toEqual(['file', 'file'])
  expect(existsSync(nowhere)).toBe(false)
})

test('writes one log line per change, even for a hostile reason', () => {
  const suspendLog = join(folder, 'suspend.log')
  const { killSwitch } = open({ suspendLog })
  const reason = 'a"b\n{"action":"resume"}\u2028\u001b[31m'
  killSwitch.take({ version: 1, suspended: true, reason })
  killSwitch.take({ version: 1, suspended: true, reason })
  const lines = readFileSync(suspendLog, 'utf8').trimEnd().split('\n')
  expect(lines.map((line) => JSON.parse(line).reason)).toEqual([reason])
})

test('reports a listener that throws or rejects as an error, and continues', async () => {
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

test('does not notify a removed listener', () => {
  const { killSwitch, listeners } = open()
  const heard: unknown[] = []
  const takeOff = listeners.on('suspend', (change) => heard.push(change))
  takeOff()
  killSwitch.take({ version: 1, suspended: true, reason: null })
  expect(heard).toEqual([])
})

const message = { instance_id: 'agent-1', action: 'suspend', reason: 'why', version: 3 }
const state: ControlState = { version: 3, suspended: true, reason: 'why' }

// A message for another instance, or an invalid one, must change nothing.
test('accepts only valid control messages for its instance', () => {
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

test('accepts an answer to a poll only with a version', () => {
  for (const etag of ['W/"3"', '"3"']) expect(stateFromPoll({ suspended: true, reason: 'why' }, etag)).toEqual(state)
  for (const etag of [null, '', 'W/""', 'W/"-1"', 'W/"3', '3', 'W/"3"x', `W/"${'9'.repeat(16)}"`]) {
    expect(stateFromPoll({ suspended: true, reason: null }, etag), `${etag}`).toBeUndefined()
  }
  expect(stateFromPoll({}, 'W/"3"')).toBeUndefined()
})
