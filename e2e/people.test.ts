import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type IdentityProvider, ProviderBrowser, startIdentityProvider } from '../test-servers/identity-provider.ts'
import { runCommand, startCommand } from './command.ts'
import { type Service, startService, until } from './service.ts'

const publicUrl = 'http://wardline.test'
const folder = mkdtempSync(join(tmpdir(), 'wardline-people-'))
const rolesFile = join(folder, 'roles.yaml')

let provider: IdentityProvider
let service: Service
beforeAll(async () => {
  writeFileSync(rolesFile, '- { group: platform, role: operator }\n')
  provider = await startIdentityProvider({
    publicUrl,
    accounts: { ada: { name: 'Ada', groups: ['platform', 'x\u001b[31m'] }, eve: { name: 'Eve', groups: ['x'] } },
  })
  service = await startService({ env: provider.env() })
})
afterAll(async () => {
  await service?.stop()
  await provider?.[Symbol.asyncDispose]()
  rmSync(folder, { recursive: true })
})

const atService = () => ({ WARDLINE_URL: service.baseUrl, WARDLINE_KEY: service.key })
const atProvider = () => ({ ...provider.env(), WARDLINE_OIDC_ROLES_FILE: rolesFile })

test('wardline oidc test walks discovery, client, sign-in and roles before a service uses them', async () => {
  const command = startCommand(['oidc', 'test'], atProvider(), undefined, 'pipe')
  await until(
    'the question',
    () => command.output(),
    (text) => text.includes('Address: '),
  )
  expect(command.stdout()).toContain('Client: wardline and its secret are accepted')
  expect(command.stdout()).toContain('Roles: 1 rows')
  const [url] = /http:\S+\/auth\?\S+/.exec(command.stdout())!
  command.type(`${await new ProviderBrowser().signIn(url, 'ada', publicUrl)}\n`)
  const { code, stdout } = await command.ended
  expect(stdout).toContain(
    'Name: Ada\nGroups: platform, x [31m\nRole: operator, by platform\nA refresh says the groups',
  )
  expect(stdout).toContain('People can confirm changes that matter')
  expect(code).toBe(0)
})

test('wardline oidc test says that a provider sends no auth_time, and what people do then', async () => {
  const command = startCommand(['oidc', 'test'], atProvider(), undefined, 'pipe')
  await until(
    'the question',
    () => command.output(),
    (text) => text.includes('Address: '),
  )
  const [url] = /http:\S+\/auth\?\S+/.exec(command.stdout())!
  const back = await new ProviderBrowser().signIn(url, 'ada', publicUrl)
  const restore = provider.changeAnswers('/token', (body) => {
    const claims = JSON.parse(Buffer.from(String(body.id_token).split('.')[1]!, 'base64url').toString('utf8'))
    return { ...body, id_token: provider.sign({ ...claims, auth_time: undefined }) }
  })
  command.type(`${back}\n`)
  const { code, stdout } = await command.ended
  restore()
  expect([code, stdout]).toEqual([
    0,
    expect.stringContaining('cannot confirm changes that matter, which then need the local admin key'),
  ])
})

test.each([
  ['a wrong secret', { WARDLINE_OIDC_CLIENT_SECRET: 'wrong' }, 'Client wardline: The provider refuses this service'],
  [
    'no provider',
    { WARDLINE_OIDC_ISSUER: 'http://127.0.0.1:9' },
    'Discovery: The provider http://127.0.0.1:9 cannot be read',
  ],
  ['an invalid table', { WARDLINE_OIDC_ROLES_FILE: '/missing' }, 'cannot be read: ENOENT'],
])('wardline oidc test says %s', async (_, env, sentence) => {
  const { code, stderr } = await runCommand(['oidc', 'test', '--no-sign-in'], { ...atProvider(), ...env })
  expect([code === 0, stderr]).toEqual([false, expect.stringContaining(sentence)])
})

test('wardline oidc test reads the error code of the provider, not its words', async () => {
  const restore = provider.answerTokens(400, { error: 'invalid_scope', error_description: 'no invalid_grant' })
  const { code, stderr } = await runCommand(['oidc', 'test', '--no-sign-in'], atProvider())
  restore()
  expect([code === 0, stderr]).toEqual([false, expect.stringContaining('The provider refused (invalid_scope')])
})

test('wardline oidc explain says why a token or a person has a role', async () => {
  const token = (claims: object) => provider.sign({ sub: 'x', ...claims })
  const byToken = await runCommand(['oidc', 'explain', token({ groups: ['platform'] })], atProvider())
  expect(byToken.stdout).toContain('Role: operator, by platform')
  const omitted = await runCommand(['oidc', 'explain', token({ hasgroups: true })], atProvider())
  expect(omitted.stdout).toContain('No role. The provider left your groups out')
  const unknown = await runCommand(['oidc', 'explain', 'eve'], atService())
  expect(unknown).toMatchObject({ code: 2, stderr: expect.stringContaining('has tried to sign in') })
  const { body } = await service.call<{ url: string; secret: string }>('POST', '/api/sign-in/start', { key: null })
  const back = await new ProviderBrowser().signIn(body.url, 'eve', publicUrl)
  const answer = { answer: back.search.slice(1), secret: body.secret }
  expect((await service.call('POST', '/api/sign-in/finish', { key: null, body: answer })).status).toBe(403)
  const known = await runCommand(['oidc', 'explain', 'eve'], atService())
  expect(known.stdout).toContain('No role: none of these groups')
})

test('wardline people lists people, ends their sessions and replaces the table of roles', async () => {
  const people = (...args: string[]) => runCommand(['people', ...args], atService())
  expect((await people('roles')).stdout).toBe('Stored in the service:\nno group has a role\n')
  expect((await people('roles', '--set', rolesFile)).stdout).toBe('Stored in the service:\nplatform → operator\n')
  writeFileSync(join(folder, 'wrong.yaml'), '- { group: platform, role: root }\n')
  expect((await people('roles', '--set', join(folder, 'wrong.yaml'))).stderr).toContain('row 1: role must be')
  const { body } = await service.call<{ url: string; secret: string }>('POST', '/api/sign-in/start', { key: null })
  const back = await new ProviderBrowser().signIn(body.url, 'ada', publicUrl)
  const answer = { answer: back.search.slice(1), secret: body.secret }
  expect((await service.call('POST', '/api/sign-in/finish', { key: null, body: answer })).status).toBe(201)
  const { stdout } = await people()
  const [id] = /person-[0-9a-z]{16}(?=\s+Ada\s+operator\s+-\s+platform\s+1)/.exec(stdout)!
  expect((await people('end-sessions', id)).stdout).toContain('Sessions ended: 1.')
  expect(await people('end-sessions', 'person-0000000000000000')).toMatchObject({ code: 2 })
})

test('wardline passkeys lists the passkeys of the local admin', async () => {
  const passkeys = (...args: string[]) => runCommand(['passkeys', ...args], atService())
  expect((await passkeys()).stderr).toContain('No passkeys. The local admin adds them in a browser')
  expect(JSON.parse((await passkeys('list', '--json')).stdout)).toEqual({ passkeys: [] })
  const unknown = await passkeys('remove', 'passkey-0000000000000000')
  expect([unknown.code, unknown.stderr]).toEqual([2, expect.stringContaining('No passkey with id')])
})
