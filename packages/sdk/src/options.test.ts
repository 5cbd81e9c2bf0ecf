import { expect, test } from 'vitest'
import { createMonitor } from './index.ts'
import type { MonitorOptions } from './monitor.ts'

const fitting = { url: 'https://wardline.example/base', key: 'wl_agent_abc', instanceId: 'support-bot-1' }

test('takes what is needed and adds the rest', () => {
  const monitor = createMonitor(fitting)
  expect(monitor).toMatchObject({ instanceId: 'support-bot-1', failMode: 'open', suspended: false })
  expect(monitor.health).toEqual({
    running: false,
    state: 'active',
    reason: undefined,
    failMode: 'open',
    controlVersion: undefined,
    lastContact: undefined,
    stale: true,
    stream: 'closed',
    decoys: 'unknown',
    queuedEvents: 0,
    droppedEvents: 0,
    uncheckedCalls: 0,
  })
})

test.each<[string, object, string]>([
  ['no url', { url: undefined }, 'url must be'],
  ['an address of something else', { url: 'ftp://wardline.example' }, 'url must be'],
  ['a url with a password', { url: 'https://user:hunter2@wardline.example' }, 'url must have no user'],
  ['a url with a query', { url: 'https://wardline.example/?key=hunter2' }, 'url must have no user'],
  ['no key', { key: undefined }, 'key must be'],
  ['an empty key', { key: '' }, 'key must be'],
  ['a key with a line feed', { key: 'wl_hunter2\n' }, 'key must be'],
  ['no instance', { instanceId: undefined }, 'instanceId must'],
  ['an instance in upper case', { instanceId: 'Bot' }, 'instanceId must'],
  ['an instance that is too long', { instanceId: 'a'.repeat(65) }, 'instanceId must'],
  ['an instance with a line feed', { instanceId: 'bot\n' }, 'instanceId must'],
  ['another fail mode', { failMode: 'half' }, 'failMode must be'],
  ['a misspelled option', { fail_mode: 'closed' }, 'fail_mode is not an option'],
  ['no time', { staleAfterMs: 0 }, 'staleAfterMs must be'],
  ['an endless time', { checkTimeoutMs: Number.POSITIVE_INFINITY }, 'checkTimeoutMs must be'],
  ['a blank name', { name: ' ' }, 'name must be'],
  ['a long name', { name: '🦀'.repeat(81) }, 'name must be'],
  ['a number for a file', { stateFile: 7 }, 'stateFile must be'],
])('refuses %s at once, by a sentence that names the option and no secret', (_fault, wrong, sentence) => {
  const options = { ...fitting, ...wrong } as MonitorOptions
  expect(() => createMonitor(options)).toThrow(TypeError)
  expect(() => createMonitor(options)).toThrow(sentence)
  expect(() => createMonitor(options)).not.toThrow('hunter2')
})

test('refuses to be called without options', () => {
  expect(() => createMonitor(undefined as never)).toThrow('options are required')
})
