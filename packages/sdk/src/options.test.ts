import { isLoopback } from '@wardline/text'
import { expect, test } from 'vitest'
import { createMonitor } from './index.ts'
import type { MonitorOptions } from './monitor.ts'
import { isUnencrypted, readOptions } from './options.ts'

const validOptions = { url: 'https://wardline.example/base', key: 'wl_agent_abc', instanceId: 'support-bot-1' }

test('accepts the required options and fills in defaults', () => {
  const monitor = createMonitor(validOptions)
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
  ['a parent in upper case', { parent: 'Lead' }, 'parent must'],
  ['an instance with a line feed', { instanceId: 'bot\n' }, 'instanceId must'],
  ['an empty public key', { publicKey: '' }, 'publicKey must be'],
  ['a public key of another length', { publicKey: 'A'.repeat(44) }, 'publicKey must be'],
  ['a public key that is no base64url', { publicKey: `${'+'.repeat(42)}A` }, 'publicKey must be'],
  ['a public key with bits to spare', { publicKey: 'B'.repeat(43) }, 'publicKey must be'],
  ['nine public keys', { publicKey: Array(9).fill('A'.repeat(43)).join(',') }, 'at most 8 of them'],
  ['a list of public keys with a gap', { publicKey: `${'A'.repeat(43)},` }, 'publicKey must be'],
  ['another fail mode', { failMode: 'half' }, 'failMode must be'],
  ['a misspelled option', { fail_mode: 'closed' }, 'fail_mode is not an option'],
  ['no time', { staleAfterMs: 0 }, 'staleAfterMs must be'],
  ['an endless time', { checkTimeoutMs: Number.POSITIVE_INFINITY }, 'checkTimeoutMs must be'],
  ['a blank name', { name: ' ' }, 'name must be'],
  ['a long name', { name: '🦀'.repeat(81) }, 'name must be'],
  ['one text for tags', { tags: 'env:production' }, 'tags must be'],
  ['a tag in upper case', { tags: ['Production'] }, 'tags must be'],
  ['too many tags', { tags: Array(21).fill('x') }, 'tags must be'],
  ['a number for a file', { stateFile: 7 }, 'stateFile must be'],
])('refuses %s with a message that names the option but no secret', (_fault, wrong, sentence) => {
  const options = { ...validOptions, ...wrong } as MonitorOptions
  expect(() => createMonitor(options)).toThrow(TypeError)
  expect(() => createMonitor(options)).toThrow(sentence)
  expect(() => createMonitor(options)).not.toThrow('hunter2')
})

test('refuses a call without options', () => {
  expect(() => createMonitor(undefined as never)).toThrow('options are required')
})

test.each([
  ['http://wardline.example', true],
  ['http://10.0.0.5:4747', true],
  ['http://127.0.0.1.example', true],
  ['http://localhost.example', true],
  ['http://[2001:db8::1]:4747', true],
  ['https://wardline.example', false],
  ['http://127.0.0.1:4747', false],
  ['http://localhost:4747', false],
  ['http://agents.localhost', false],
  ['http://[::1]:4747', false],
])('%s is unencrypted beyond this machine: %s', (url, expected) => {
  expect(isUnencrypted(url)).toBe(expected)
})

test.each([
  ...['127.0.0.1', '127.255.0.3', 'localhost', '[::1]', '[::]', '0.0.0.0', '128.0.0.1', '[::ffff:127.0.0.1]'],
  ...['127.evil.example', '127.0.0.1.evil.example', 'localhost.evil.example', '127.1', '2130706433', '0x7f.1'],
])('treats %s as loopback like the service', (host) => {
  const url = `http://${host}`
  expect(isUnencrypted(url)).toBe(!isLoopback(new URL(url).hostname))
})

// An attacker on the network could forge a resume, or a version that makes the agent ignore kills.
test('warns once about an unencrypted url of another machine', async () => {
  const monitor = createMonitor({ ...validOptions, url: 'http://wardline.invalid' })
  const codes: string[] = []
  monitor.on('error', ({ code }) => codes.push(code))
  await monitor.refresh()
  await monitor.refresh()
  expect(codes.filter((code) => code === 'unencrypted')).toHaveLength(1)
})

test('takes a parent, and none where a variable is empty or names the agent itself', () => {
  const parentOf = (parent?: string) => readOptions({ ...validOptions, parent }).parent
  expect([undefined, '', 'support-bot-1', 'lead'].map(parentOf)).toEqual([undefined, undefined, undefined, 'lead'])
})
