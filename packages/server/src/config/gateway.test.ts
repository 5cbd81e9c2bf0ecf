import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { ConfigError } from './config.ts'
import { readUpstreams } from './gateway.ts'

const folder = mkdtempSync(join(tmpdir(), 'wardline-upstreams-'))
afterAll(() => rmSync(folder, { recursive: true }))
const file = (name: string, text: string, mode = 0o600): string => {
  const path = join(folder, name)
  writeFileSync(path, text, { mode })
  return path
}

const env = { MODEL_KEY: 'sk-secret-of-the-provider', EMPTY: '', SPLIT: 'sk-a\nsk-b' }

function faultsOf(text: string): string[] {
  try {
    readUpstreams({ gatewayFile: file('gateway.yaml', text) }, env)
  } catch (fault) {
    if (fault instanceof ConfigError) return fault.faults
    throw fault
  }
  throw new Error('the file is accepted')
}

it('reads upstreams with their keys from a file or the environment', () => {
  const key = file('key', 'sk-of-a-file\n')
  const text = `upstreams:
  openai: { kind: openai, url: https://api.openai.com/v1/, key_file: ${key} }
  anthropic: { kind: anthropic, url: https://api.anthropic.com, key_env: MODEL_KEY }`
  const upstreams = readUpstreams({ gatewayFile: file('gateway.yaml', text) }, env)
  expect(upstreams.map(({ name, url, key: found }) => [name, url.href, found])).toEqual([
    ['openai', 'https://api.openai.com/v1', 'sk-of-a-file'],
    ['anthropic', 'https://api.anthropic.com/', env.MODEL_KEY],
  ])
})

const one = (fields: string) => `upstreams: { openai: { kind: openai, ${fields} } }`

it.each([
  ['no upstreams', '{}', 'upstreams'],
  ['an unknown field', 'upstreams: {}\nbudget: []', 'budget'],
  ['an unknown kind', 'upstreams: { x: { kind: mistral, url: "https://x", key_env: MODEL_KEY } }', 'kind'],
  ['an invalid name', 'upstreams: { "A/b": { kind: openai, url: "https://x", key_env: MODEL_KEY } }', 'A/b'],
  ['another protocol', one('url: "ftp://x/v1", key_env: MODEL_KEY'), 'url must be an http or https URL'],
  ['a password', one('url: "https://me:secret@x/v1", key_env: MODEL_KEY'), 'url must have no user, password'],
  ['no key', one('url: "https://x/v1"'), 'key_file or key_env must be given'],
  ['two keys', one('url: "https://x/v1", key_env: MODEL_KEY, key_file: /x'), 'key_file or key_env must be given'],
  ['an empty variable', one('url: "https://x/v1", key_env: EMPTY'), 'the variable EMPTY is not set'],
  ['two lines as key', one('url: "https://x/v1", key_env: SPLIT'), 'the key must have visible ASCII characters only'],
  ['a missing key file', one('url: "https://x/v1", key_file: /no/such/file'), '/no/such/file cannot be read'],
  ['no YAML', 'upstreams: {', 'cannot be read'],
])('refuses %s with the field, and shows no secret', (_, text, sentence) => {
  const faults = faultsOf(text).join('\n')
  expect(faults).toContain('WARDLINE_GATEWAY_FILE')
  expect(faults).toContain(sentence)
  expect(faults).not.toMatch(/sk-|secret/)
})

it.skipIf(process.platform === 'win32')('refuses a key that others on the machine can read', () => {
  const key = file('open-key', 'sk-x', 0o644)
  expect(faultsOf(one(`url: "https://x/v1", key_file: ${key}`)).join()).toContain('chmod 600')
})

it('says which file is missing', () => {
  expect(() => readUpstreams({ gatewayFile: undefined }, env)).toThrow('needs WARDLINE_GATEWAY_FILE')
  expect(() => readUpstreams({ gatewayFile: join(folder, 'none') }, env)).toThrow('does not exist')
})
