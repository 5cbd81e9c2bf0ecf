import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
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

test('come out of the file, and out of the environment before it', () => {
  putFile({ ...file, name: 'Mine' })
  expect(read()).toEqual({ ...file, name: 'Mine', agentType: 'claude-code' })
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
    failMode: 'open',
  })
  expect(read(env, true)).toMatchObject({ failMode: 'closed' })
})

// A folder that a coding agent works in may bring an environment, and with it an address of its own.
test('never pair the key of the file with another address', () => {
  putFile(file)
  expect(read({ WARDLINE_URL: 'https://evil.example' })).toMatchObject({ fault: expect.stringContaining('a key') })
  expect(JSON.stringify(read({ WARDLINE_URL: 'https://evil.example' }))).not.toContain('key-of-the-file')
})

test('take a key out of a file, but rather the one that is given itself', () => {
  const keyFile = join(folder, 'key')
  writeFileSync(keyFile, 'key-of-a-key-file\n')
  const { key, ...others } = file
  putFile({ ...others, keyFile })
  expect(read()).toMatchObject({ key: 'key-of-a-key-file' })
  expect(read({ WARDLINE_KEY: key, WARDLINE_KEY_FILE: keyFile })).toMatchObject({ key })
})

describe('that cannot be used', () => {
  test.each([
    ['others can read', { content: file, mode: 0o640 }, /chmod 600/],
    ['is no JSON', { content: '{"key":"key-of-the-file"' }, /is not JSON/],
    ['is a list', { content: [] }, /must be an object/],
    ['has a misspelled name', { content: { ...file, failmode: 'closed' } }, /names "failmode"/],
    ['has a number', { content: { ...file, key: 7 } }, /key in .* must be a text/],
  ])(
    'because the file %s count as "fail closed", since it may say so',
    (_case, { content, mode }: { content: unknown; mode?: number }, says) => {
      putFile(content, mode)
      expect(read()).toMatchObject({ fault: expect.stringMatching(says), failMode: 'closed' })
      expect(JSON.stringify(read())).not.toContain('key-of-the-file')
      // Unless it is said elsewhere.
      expect(read({ WARDLINE_FAIL_MODE: 'open' })).toMatchObject({ failMode: 'open' })
    },
  )

  test('because the fail mode is none count as "fail closed"', () => {
    expect(read({ WARDLINE_FAIL_MODE: 'close' })).toMatchObject({ failMode: 'closed', fault: expect.any(String) })
    putFile({ ...file, failMode: 'shut' })
    expect(read()).toMatchObject({ failMode: 'closed', fault: expect.stringContaining('failMode in') })
  })

  test('because there are none fail open', () => {
    expect(read()).toMatchObject({ failMode: 'open', fault: expect.stringContaining('WARDLINE_URL') })
    expect(read({}, true)).toMatchObject({ failMode: 'closed' })
  })
})

describe('the derived instance id', () => {
  test('is readable where it can be', () => {
    expect(derivedInstanceId('claude-code', 'Atlas', 'anna')).toBe('claude-code-atlas-anna')
    expect(derivedInstanceId('codex', 'atlas.local', 'anna')).toMatch(/^codex-atlas-local-anna-[0-9a-z]{7}$/)
  })

  test('fits the service whatever host and user are called, and tells them apart', () => {
    const name = fc.string({ unit: 'binary', maxLength: 80 })
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
