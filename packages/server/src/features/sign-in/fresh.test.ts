import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import {
  type IdentityProvider,
  ProviderBrowser,
  startIdentityProvider,
} from '../../../../../test-servers/identity-provider.ts'
import { accounts, as, confirm, openServiceWith, publicUrl, signIn } from '../../testing/people.ts'
import type { Method, TestService } from '../../testing/service.ts'

const minute = 60_000
const rule = (mode: string) => ({
  rule: `title: A rule\nmode: ${mode}\nseverity: warning\ndetection:\n  seen: { event_type: x }\n  condition: seen\ntests:\n  match:\n    - - { event_type: x }\n  no_match:\n    - - { event_type: y }\n`,
})

let provider: IdentityProvider
let service: TestService
beforeAll(async () => {
  provider = await startIdentityProvider({ publicUrl, accounts })
})
afterAll(() => provider[Symbol.asyncDispose]())
beforeEach(async () => {
  service = await openServiceWith(provider)
  for (const id of ['a', 'b']) await service.call('POST', '/api/heartbeat', { body: { instance_id: id, name: id } })
  await service.call('POST', '/api/kill/a', { body: { reason: 'x' } })
  return () => service[Symbol.asyncDispose]()
})

const changes: [string, Method, string, unknown][] = [
  ['a resume', 'POST', '/api/resume/a', undefined],
  [
    'a resume of many',
    'POST',
    '/api/containments',
    { action: 'resume', reason: 'x', selector: { instances: ['a'] }, confirm: 'resume 1 agent' },
  ],
  ['a new key', 'POST', '/api/keys', { scope: 'viewer', name: 'x' }],
  ['a table of roles', 'PUT', '/api/roles', { mappings: [{ group: 'admins', role: 'admin' }], version: 1 }],
  ['who may sign in', 'PUT', '/api/sign-in', { people_only: true }],
  [
    'a new decoy, whose value is shown',
    'POST',
    '/api/honeypots',
    { type: 'api_key', keyType: 'openai', instanceId: 'a', label: 'x' },
  ],
  ['a rule that enforces', 'POST', '/api/rules', rule('enforce')],
]

it.each(changes)('%s needs a confirmation of the last five minutes', async (_, method, path, body) => {
  const browser = new ProviderBrowser()
  const session = as(await signIn(service, 'root', browser))
  const given = body === undefined ? {} : { body }
  const refused = await service.call<{ error: string }>(method, path, { ...session, ...given })
  expect([refused.status, refused.headers['x-error-code']], refused.text).toEqual([401, 'fresh_confirmation_required'])
  const done = await service.call(method, path, { ...as(await confirm(service, 'root', browser)), ...given })
  expect([200, 201], done.text).toContain(done.status)
})

it.each<[string, Method, string, unknown]>([
  ['a kill', 'POST', '/api/kill/b', { reason: 'x' }],
  [
    'a suspension of many',
    'POST',
    '/api/containments',
    { action: 'suspend', reason: 'x', selector: { instances: ['b'] }, confirm: 'suspend 1 agent' },
  ],
  ['a rule that observes', 'POST', '/api/rules', rule('observe')],
])('%s needs none', async (_, method, path, body) => {
  const session = as(await signIn(service, 'root'))
  const done = await service.call(method, path, { ...session, body })
  expect([200, 201], done.text).toContain(done.status)
})

it('a confirmation lasts five minutes', async () => {
  const browser = new ProviderBrowser()
  await signIn(service, 'root', browser)
  const confirmed = as(await confirm(service, 'root', browser))
  service.clock.advance(6 * minute)
  const late = await service.call('POST', '/api/resume/a', confirmed)
  expect(late.headers['x-error-code']).toBe('fresh_confirmation_required')
})

it('a key has nothing to confirm', async () => {
  expect((await service.call('POST', '/api/resume/a')).status).toBe(200)
})
