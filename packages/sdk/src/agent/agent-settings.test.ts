import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { anyCharacter } from '../../../../test-servers/any-character.ts'
import { derivedInstanceId, type Environment, readAgentSettings } from './agent-settings.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'wardline-settings-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

function putFile(content: unknown, mode = 0o600): void {
  mkdirSync(join(folder, 'wardline'), { recursive: true })
  const file = join(folder, 'wardline', 'agent.json')
  writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content))
  chmodSync(file, mode)
}

const read = (env: Environment = {}, failClosed = false) =>
  readAgentSettings({ XDG_CONFIG_HOME: folder, ...env }, 'claude-code', failClosed)

const file = { url: 'https://file.example', key: 'key-of-the-file', instanceId: 'of-file', failMode: 'closed' }

test('settings come from the file, and the environment takes precedence', () => {
  putFile({ ...file, name: 'Mine' })
  expect(read()).toEqual({ ...file, name: 'Mine', agentType: 'claude-code', resultText: false, onAsk: 'deny' })
  const env = {
    WARDLINE_URL: 'http://127.0.0.1:4747',
    WARDLINE_KEY: 'key-of-the-environment',
    WARDLINE_INSTANCE_ID: 'of-env',
    WARDLINE_FAIL_MODE: 'open',
  }
  expect(read(env)).toMatchObject({
    url: 'http://127.0.0.1:4747',
    key: 'key-of-the-environment',
    instanceId: 'of-env',
  })
  expect(read(env, true)).toMatchObject({ failMode: 'closed' })
  expect(read({ ...env, WARDLINE_PARENT: 'lead' })).toMatchObject({ parent: 'lead' })
  for (const none of ['', 'of-env'])
    expect(read({ ...env, WARDLINE_PARENT: none })).toMatchObject({ parent: undefined })
  expect(read({ ...env, WARDLINE_PARENT: 'No id' })).toMatchObject({ fault: expect.stringContaining('parent must') })
  expect(read({ WARDLINE_RESULT_TEXT: 'on' })).toMatchObject({ resultText: true })
  expect(read({ WARDLINE_RESULT_TEXT: 'yes' })).toMatchObject({ fault: expect.stringContaining('"on" or "off"') })
  putFile({ ...file, resultText: 'off' })
  expect(read({ WARDLINE_RESULT_TEXT: 'on' })).toMatchObject({ resultText: false })
})

// A folder may both set WARDLINE_ON_ASK and switch the coding agent to approve all that it asks its user.
test('the environment may not leave approvals to the user of the coding agent if the settings are in a file', () => {
  putFile(file)
  expect(read({ WARDLINE_ON_ASK: 'ask' })).toMatchObject({ onAsk: 'deny' })
  expect(read({ WARDLINE_ON_ASK: 'wait' })).toMatchObject({ onAsk: 'wait' })
  putFile({ ...file, onAsk: 'ask' })
  expect(read()).toMatchObject({ onAsk: 'ask' })
  expect(read({ WARDLINE_ON_ASK: 'deny' })).toMatchObject({ onAsk: 'deny' })
  expect(read({ WARDLINE_ON_ASK: 'always' })).toMatchObject({
    fault: expect.stringContaining('"deny", "wait" or "ask"'),
  })
  rmSync(join(folder, 'wardline'), { recursive: true })
  const env = { WARDLINE_URL: 'https://env.example', WARDLINE_KEY: 'key-of-env' }
  expect(read({ ...env, WARDLINE_ON_ASK: 'ask' })).toMatchObject({ onAsk: 'ask' })
})

// The working folder of a coding agent may set environment variables.
test('settings use the strictest of the fail modes', () => {
  for (const [inFile, inEnv, failClosed] of [
    ['open', 'open', true],
    ['open', 'closed', false],
    ['closed', 'open', false],
    ['closed', undefined, false],
  ] as const) {
    putFile({ ...file, failMode: inFile })
    expect(read({ WARDLINE_FAIL_MODE: inEnv }, failClosed)).toMatchObject({ failMode: 'closed' })
  }
  putFile({ ...file, failMode: 'open' })
  expect(read({ WARDLINE_FAIL_MODE: 'open' })).toMatchObject({ failMode: 'open' })
  expect(read()).toMatchObject({ failMode: 'open' })
})

// The working folder of a coding agent may set variables, which must not add a public key.
test('settings use the public keys of the file with the url of the file, otherwise those of the environment', () => {
  const [mine, theirs] = ['A'.repeat(43), 'E'.repeat(43)]
  const elsewhere = { WARDLINE_URL: 'https://other.example', WARDLINE_KEY: 'key-of-the-environment' }
  putFile({ ...file, publicKey: mine })
  expect(read({ WARDLINE_PUBLIC_KEY: theirs })).toMatchObject({ url: file.url, publicKey: mine })
  expect(read({ ...elsewhere, WARDLINE_PUBLIC_KEY: theirs })).toMatchObject({ publicKey: theirs })
  expect(read(elsewhere)).toMatchObject({ publicKey: undefined })
  putFile(file)
  expect(read({ WARDLINE_PUBLIC_KEY: theirs })).toMatchObject({ publicKey: theirs })
  expect(read({ WARDLINE_PUBLIC_KEY: 'short' })).toMatchObject({ fault: expect.stringContaining('publicKey must be') })
})

test('settings never pair the key of the file with another url', () => {
  putFile(file)
  const evil = { WARDLINE_URL: 'https://evil.example' }
  expect(read(evil)).toMatchObject({ url: 'https://file.example', key: 'key-of-the-file' })
  const keyFile = join(folder, 'key')
  writeFileSync(keyFile, 'key-of-the-file\n')
  for (const named of [keyFile, join(folder, 'wardline', 'agent.json')]) {
    const settings = read({ ...evil, WARDLINE_KEY_FILE: named })
    expect(settings).toMatchObject({ fault: expect.stringContaining('only for its url') })
    expect(JSON.stringify(settings)).not.toContain('key-of-the-file')
  }
  putFile({ ...file, key: undefined, keyFile })
  expect(read({ ...evil, WARDLINE_KEY_FILE: keyFile })).toMatchObject({ fault: expect.any(String) })
  putFile({ key: 'key-of-the-file' })
  expect(read(evil)).toMatchObject({ fault: expect.stringContaining('a key') })
})

test('settings use a url of the environment together with the key of the environment', () => {
  putFile(file)
  const url = 'https://other.example'
  expect(read({ WARDLINE_URL: url, WARDLINE_KEY: 'own' })).toMatchObject({ url, key: 'own' })
  const keyFile = join(folder, 'key')
  writeFileSync(keyFile, 'own')
  expect(read({ WARDLINE_URL: url, WARDLINE_KEY_FILE: keyFile })).toMatchObject({ url, key: 'own' })
  expect(read({ WARDLINE_KEY: 'own' })).toMatchObject({ url: 'https://file.example', key: 'own' })
})

// A FIFO without a writer would block the hook forever, and a hook that never answers lets the call through.
test('settings are read only from regular files, without blocking on others', () => {
  mkdirSync(join(folder, 'wardline'), { recursive: true })
  execFileSync('mkfifo', ['-m', '600', join(folder, 'wardline', 'agent.json'), join(folder, 'pipe')])
  expect(read()).toMatchObject({ failMode: 'closed', fault: expect.stringContaining('not a regular file') })
  rmSync(join(folder, 'wardline', 'agent.json'))
  for (const keyFile of [join(folder, 'pipe'), '/dev/zero']) {
    const env = { WARDLINE_URL: 'https://a.example', WARDLINE_KEY_FILE: keyFile }
    expect(read(env)).toMatchObject({ fault: expect.stringContaining('not a regular file') })
  }
})

test('settings read the key from a key file, unless the key is set directly', () => {
  const keyFile = join(folder, 'key')
  writeFileSync(keyFile, 'key-of-a-key-file\n')
  const { key, ...others } = file
  putFile({ ...others, keyFile })
  expect(read()).toMatchObject({ key: 'key-of-a-key-file' })
  expect(read({ WARDLINE_KEY: key, WARDLINE_KEY_FILE: keyFile })).toMatchObject({ key })
})

describe('invalid settings', () => {
  test.each([
    ['others can read', { content: file, mode: 0o640 }, /chmod 600/],
    ['is not JSON', { content: '{"key":"key-of-the-file"' }, /is not JSON/],
    ['is a list', { content: [] }, /must be an object/],
    ['has a misspelled name', { content: { ...file, failmode: 'closed' } }, /unknown setting "failmode"/],
    ['has a number', { content: { ...file, key: 7 } }, /key in .* must be a string/],
  ])(
    'fail closed if the file %s, since it may say "closed"',
    (_case, { content, mode }: { content: unknown; mode?: number }, says) => {
      putFile(content, mode)
      expect(read()).toMatchObject({ fault: expect.stringMatching(says), failMode: 'closed' })
      expect(JSON.stringify(read())).not.toContain('key-of-the-file')
      expect(read({ WARDLINE_FAIL_MODE: 'open' })).toMatchObject({ failMode: 'closed' })
    },
  )

  test('fail closed if the fail mode is invalid', () => {
    expect(read({ WARDLINE_FAIL_MODE: 'close' })).toMatchObject({ failMode: 'closed', fault: expect.any(String) })
    putFile({ ...file, failMode: 'shut' })
    expect(read()).toMatchObject({ failMode: 'closed', fault: expect.stringContaining('failMode in') })
  })

  test('fail open if there are no settings', () => {
    expect(read()).toMatchObject({ failMode: 'open', fault: expect.stringContaining('WARDLINE_URL') })
    expect(read({}, true)).toMatchObject({ failMode: 'closed' })
  })
})

describe('the derived instance id', () => {
  test('contains the names of agent, host and user where they are valid', () => {
    expect(derivedInstanceId('claude-code', 'Atlas', 'anna')).toBe('claude-code-atlas-anna')
    expect(derivedInstanceId('codex', 'atlas.local', 'anna')).toMatch(/^codex-atlas-local-anna-[0-9a-z]{7}$/)
  })

  test('is valid for any host and user names, and distinguishes them', () => {
    const name = fc.string({ unit: anyCharacter, maxLength: 80 })
    fc.assert(
      fc.property(name, name, name, (host, user, other) => {
        const id = derivedInstanceId('claude-code', host, user)
        expect(id).toMatch(/^[a-z0-9_-]{1,64}$/)
        const isSame = user.toLowerCase() === other.toLowerCase()
        expect(derivedInstanceId('claude-code', host, other) === id).toBe(isSame)
      }),
      { seed: 20261121 },
    )
  })
})
