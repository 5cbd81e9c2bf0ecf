import { chmodSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseEnv } from 'node:util'
import { expect, test } from 'vitest'
import { levers } from './enforcement-add.ts'
import { useCapturedOutput } from './testing/captured-output.ts'

const { output, errors, folder, run } = useCapturedOutput()
const file = () => join(folder(), 'points.json')
const add = (...words: string[]) => run('enforcement', 'add', ...words, '--file', file())
const points = () => JSON.parse(readFileSync(file(), 'utf8'))
const settingsOf = (name: string) => parseEnv(readFileSync(join(folder(), `${name}.env`), 'utf8'))

test('writes the entry and the settings of the receiver with the same secret, for nobody else to read', async () => {
  expect(await add('okta', '--instance', 'support-*', '--instance', 'bot-1')).toBe(0)
  expect(points()).toEqual([
    {
      name: 'okta',
      url: 'http://127.0.0.1:8090/',
      secret: expect.stringMatching(/^whsec_[A-Za-z0-9+/]{43}=$/),
      instances: ['support-*', 'bot-1'],
    },
  ])
  expect(settingsOf('okta')).toEqual({
    WARDLINE_ENFORCEMENT_SECRET: points()[0].secret,
    PORT: '8090',
    OKTA_URL: '',
    OKTA_TOKEN: '',
    IDENTITIES: join(folder(), 'okta.identities.json'),
  })
  for (const written of [file(), join(folder(), 'okta.env')]) expect(statSync(written).mode & 0o777).toBe(0o600)
  const printed = output.join('\n')
  expect(printed).toContain('fill in OKTA_URL, OKTA_TOKEN')
  expect(printed).toContain(`npm run example -- enforcement okta ${join(folder(), 'okta.env')}`)
  expect(printed).toContain('wardline enforcement test okta')
  expect(printed).not.toContain('whsec_')
})

test('adds to the points that exist, each receiver on another port', async () => {
  expect(await add('docker')).toBe(0)
  const [first] = points()
  expect(await add('vault', '--tag', 'env:prod', '--name', 'vault-eu')).toBe(0)
  expect(await add('aws', '--url', 'https://levers.internal/aws')).toBe(0)
  expect(points()).toEqual([
    first,
    expect.objectContaining({
      name: 'vault-eu',
      url: 'http://127.0.0.1:8091/',
      actions: ['suspend'],
      tags: ['env:prod'],
    }),
    expect.objectContaining({ name: 'aws', url: 'https://levers.internal/aws' }),
  ])
  expect(settingsOf('vault-eu').PORT).toBe('8091')
  expect(settingsOf('aws').PORT).toBe('8090')
})

test.for<[why: string, words: string[], code: number, error: RegExp]>([
  ['a point of this name', ['docker'], 2, /has a point docker: choose another --name/],
  ['settings of this name', ['aws'], 2, /aws\.env exists: choose another --name/],
  ['an unknown lever', ['gcp'], 64, /The levers are docker, kubernetes/i],
  ['a name of a path', ['okta', '--name', '../okta'], 78, /name may contain only/],
  ['an address that is none', ['okta', '--url', 'ftp://x'], 78, /url/],
  ['all agents as a pattern', ['okta', '--instance', '*'], 78, /instances/],
  ['both kinds of patterns', ['okta', '--instance', 'a', '--tag', 'b'], 78, /exclude each other/],
])('refuses %s and changes nothing', async ([, words, code, error]) => {
  expect(await add('docker')).toBe(0)
  writeFileSync(join(folder(), 'aws.env'), 'mine')
  const files = () => readdirSync(folder()).map((name) => [name, readFileSync(join(folder(), name), 'utf8')])
  const before = files()
  expect(await add(...words)).toBe(code)
  expect(errors.join('\n')).toMatch(error)
  expect(files()).toEqual(before)
})

test('refuses a file of points that others can read, or that is invalid', async () => {
  writeFileSync(file(), '[]', { mode: 0o644 })
  expect(await add('docker')).toBe(78)
  expect(errors.pop()).toContain('chmod 600')
  chmodSync(file(), 0o600)
  writeFileSync(file(), '{ "whsec_hidden": ')
  expect(await add('docker')).toBe(78)
  expect(errors.pop()).toContain('is not JSON')
  expect(existsSync(join(folder(), 'docker.env'))).toBe(false)
})

test('each lever of the examples can be added, with settings that it reads', () => {
  const examples = join(import.meta.dirname, '../../../examples/enforcement')
  const source = (name: string) => readFileSync(join(examples, `${name}.ts`), 'utf8')
  const names = /const levers = \[(.*?)\]/.exec(source('receiver'))![1]!.match(/\w+/g)
  expect(Object.keys(levers).sort()).toEqual(names!.sort())
  for (const [name, { settings, identity }] of Object.entries(levers)) {
    for (const setting of Object.keys(settings)) {
      expect(source(name)).toMatch(new RegExp(`(setting|secret)\\('${setting}'`))
    }
    expect(source(name).includes('serveIdentities('), name).toBe(identity !== undefined)
  }
})
